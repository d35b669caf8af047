"""A vendor's tool is run in a process group of its own, with a time limit; a hung one is left behind, not waited for."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from muster.plaintext import LIMIT


class Answer(NamedTuple):
    """`problem` is None when the tool ended by itself with something to read. `status` is None when it did not end by
    itself."""

    output: bytes
    problem: str | None
    status: int | None = None


def ask(command: Sequence[str], timeout: float) -> Answer | None:
    """None when the tool is not installed. The output goes to a file: a tool that hangs in the driver keeps no pipe."""
    path = shutil.which(command[0])
    if path is None:
        return None
    name = " ".join(command)
    with tempfile.TemporaryFile() as file:
        try:
            process = subprocess.Popen(
                [path, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "LC_ALL": "C"},
            )
        except OSError as error:
            return Answer(b"", f"{name}: {error.strerror}")
        hung = _wait(process, name, timeout)
        file.seek(0)
        output = file.read(LIMIT + 1)
    if hung is not None:
        return Answer(output, hung)
    silent = process.returncode and not output.strip()
    problem = f"{name}: ended with status {process.returncode} and said nothing" if silent else None
    return Answer(output, problem, process.returncode)


def _wait(process: subprocess.Popen[bytes], name: str, timeout: float) -> str | None:
    try:
        process.wait(timeout)
        return None
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:
        return f"{name}: hung for {timeout:g} s and cannot be killed (the driver holds it)"
    return f"{name}: hung for {timeout:g} s and was killed"
