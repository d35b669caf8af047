"""A site's programs before and after each attempt on this node: MUSTER_PROLOG and MUSTER_EPILOG.

They run as the agent's own user, once for each worker, with what they need in their environment (MUSTER_HOOK is prolog or
epilog). A prolog that fails or takes too long keeps the worker from starting here; an epilog that does is told as a
condition of the node. Both are killed with all they have started when their time is up.
"""

import asyncio
import os
import signal
from contextlib import suppress
from typing import Final

from msgspec import Struct

from agents.runtime.children import Children
from agents.runtime.users import User
from muster.protocol import Assignment

WORDS: Final = 4096
"""Bytes of its output that are looked at for the reason."""


class Hooks(Struct, frozen=True, kw_only=True):
    """Absolute paths, empty for none; `timeout` in seconds for each run."""

    prolog: str = ""
    epilog: str = ""
    timeout: float = 60.0


def environment(which: str, assignment: Assignment, node: str, user: User | None) -> dict[str, str]:
    return {
        "MUSTER_HOOK": which,
        "MUSTER_NODE": node,
        "MUSTER_NAMESPACE": assignment.namespace,
        "MUSTER_JOB": assignment.job,
        "MUSTER_JOB_UID": assignment.job_uid,
        "MUSTER_ATTEMPT": str(assignment.number),
        "MUSTER_ATTEMPT_UID": assignment.attempt,
        "MUSTER_WORKER_UID": assignment.worker_uid,
        "MUSTER_ROLE": assignment.role,
        "MUSTER_WORKER_INDEX": str(assignment.index),
        "MUSTER_DEVICES": ",".join(map(str, assignment.devices)),
        "MUSTER_USER": user.name if user is not None else "",
    }


async def run(children: Children, program: str, env: dict[str, str], timeout: float) -> str:
    """Empty when it ended with 0; else a sentence."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    what = f"{env['MUSTER_HOOK']} {program}"
    try:
        pid, exited = children.spawn((program,), stdout=write, together=True, extra=env)
    except OSError as error:
        return f"{what} cannot be run: {error.strerror or error}"
    finally:
        os.close(write)
    words = Words(read)
    try:
        async with asyncio.timeout(timeout):
            code = await asyncio.shield(exited)
    except TimeoutError:
        return f"{what} did not end within {timeout:g} s"
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        said = words.close()
    return "" if code == 0 else f"{what} ended with {code}" + (f": {said}" if said else "")


class Words:
    """What it says, never more of it than is of interest; it must not have to wait for us."""

    def __init__(self, fd: int) -> None:
        self._fd, self._text = fd, b""
        asyncio.get_running_loop().add_reader(fd, self._hear)

    def _hear(self) -> bool:
        try:
            data = os.read(self._fd, 65536)
        except OSError:
            return False
        if not data:
            asyncio.get_running_loop().remove_reader(self._fd)
        self._text = (self._text + data)[-WORDS:]
        return bool(data)

    def close(self) -> str:
        """The last line."""
        while self._hear():
            pass
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        lines = self._text.decode(errors="replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else ""
