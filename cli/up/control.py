"""Talks to a running `muster up` through its control socket."""

import fcntl
import json
import os
import socket
from pathlib import Path
from typing import Any

from cli.up.layout import Layout


class NotRunning(Exception):
    """No `muster up` answers in this data directory."""


class Refused(Exception):
    """The running `up` says no; the message says why."""


def ask(folder: Path, **request: Any) -> dict[str, Any]:
    """Send one request to the `up` of this data directory; its answer. Raises NotRunning or Refused."""
    layout = Layout(folder)
    try:
        here = os.open(layout.folder, os.O_PATH)
    except OSError:
        raise NotRunning(f"no cluster is running in {folder}") from None
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(f"/proc/self/fd/{here}/{layout.control.name}")
            connection.sendall(json.dumps(request).encode())
            answer = dict(json.loads(_all(connection)))
    except (FileNotFoundError, ConnectionRefusedError):
        raise NotRunning(f"no cluster is running in {folder}") from None
    finally:
        os.close(here)
    if "error" in answer:
        raise Refused(answer["error"])
    return answer


def holder(folder: Path) -> int | None:
    """The pid of who has this data directory: an `up`, also while it starts or ends and answers nothing, or the watchdog
    of one that was killed; else None."""
    try:
        lock = os.open(Layout(folder).lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(lock, 32, 0).split()
        return int(owner[0]) if owner and owner[0].isdigit() else None
    finally:
        os.close(lock)
    return None


def _all(connection: socket.socket) -> bytes:
    data = b""
    while part := connection.recv(65536):
        data += part
    return data
