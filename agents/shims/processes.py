"""A shim's first-level processes, and everything below them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from agents.shims.spawn import become, fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agents.shims.cgroup import Groups
    from agents.shims.streams import Stream

F_SETPIPE_SZ = 1031


class Process:
    """One first-level process of a worker, in a session of its own; it dies with the shim. `output` is the reading
    end of its stdout and stderr, `exit` how it ended, as the diary tells it."""

    def __init__(self, index: int, spec: dict[str, Any], stream: Stream) -> None:
        self.index, self.spec, self.stream = index, spec, stream
        self.pid, self.output, self._failure = 0, -1, -1
        self.exit: dict[str, Any] | None = None

    def start(self, groups: Groups) -> None:
        """Call it from the main thread: PDEATHSIG is sent when the *thread* that forked ends."""
        shim = os.getpid()
        self.output, out = os.pipe()
        self._failure, fail = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.output, F_SETPIPE_SZ, 2**20)
        self.pid = fork()
        if self.pid == 0:
            become(shim, groups, (os.open("/dev/null", os.O_RDONLY), out, out), self.spec, fail)
        os.close(out)
        os.close(fail)
        os.set_blocking(self.output, False)
        os.set_blocking(self._failure, False)

    def ended(self, status: int) -> dict[str, Any]:
        """Takes the wait status; `errno` is there when the program could not be executed at all."""
        errno = b""
        with contextlib.suppress(OSError):
            errno = os.read(self._failure, 16)
        os.close(self._failure)
        code = os.waitstatus_to_exitcode(status)
        self.exit = {"process": self.index, "rank": self.spec["rank"], "pid": self.pid, "at": round(time.time(), 6)}
        self.exit.update({"code": code} if code >= 0 else {"signal": -code})
        if os.WCOREDUMP(status):
            self.exit["core"] = True
        if errno:
            self.exit["errno"] = int(errno)
        return self.exit


def descendants(root: int) -> set[int]:
    """Pids of the living below `root` now, by /proc."""
    children: dict[int, list[tuple[int, bytes]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _stat(int(name))):
            children.setdefault(int(stat[1]), []).append((int(name), stat[0]))
    found, todo = set(), [root]
    while todo:
        for pid, state in children.get(todo.pop(), ()):
            todo.append(pid)
            if state != b"Z":
                found.add(pid)
    return found


def start_time(pid: int) -> int | None:
    """Clock ticks after boot at which `pid` began: pid and start name a process for ever. None when it is gone."""
    stat = _stat(pid)
    return int(stat[19]) if stat else None


def _stat(pid: int) -> list[bytes]:
    """The fields after the name, from the state on; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []
