"""Commands that people run beside a worker's ranks: in the same groups, below the same shim, gone with the worker.

The agent passes the descriptors: stdin, stdout, stderr, and the writing end of a pipe in which it reads how the
command ended. When it lets go of that pipe, nobody is interested any more and the command is ended.
"""

from __future__ import annotations

import contextlib
import os
import select

from agents.shims.diary import boottime
from agents.shims.plain import dumps
from agents.shims.spawn import become, fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any

    from agents.shims.cgroup import Groups
else:
    import _signal as signal  # `signal` itself would bring `enum`

PATIENCE = 2.0
"""Seconds between the hang-up and the kill of a command that nobody listens to."""


class Sessions:
    """By pid. `poll` is the shim's; its events for `owns(fd)` come back to `hung_up`."""

    def __init__(self, poll: select.poll, groups: Groups) -> None:
        self._poll, self._groups = poll, groups
        self._status: dict[int, int] = {}
        self._failures: dict[int, int] = {}
        self._kill_at: dict[int, float] = {}

    def start(self, spec: dict[str, Any], command: dict[str, Any], fds: list[int]) -> None:
        """`spec` is the process whose environment and folder the command gets. Call it from the main thread."""
        *streams, status = fds
        fail_read, fail = os.pipe()
        env = {**spec["env"], **command["env"]}
        shim = os.getpid()
        pid = fork()
        if pid == 0:
            become(shim, self._groups, streams, {**spec, "argv": command["argv"], "env": env}, fail, command["tty"])
        for fd in (*streams, fail):
            os.close(fd)
        os.set_blocking(
            fail_read, False
        )  # looked into when it has ended: a folder that hangs must not hold up the shim
        self._status[pid], self._failures[pid] = status, fail_read
        self._poll.register(status, 0)  # only errors: its reader is gone

    def owns(self, fd: int) -> bool:
        return fd in self._status.values()

    def hung_up(self, fd: int) -> None:
        self._poll.unregister(fd)
        pid = next(pid for pid, status in self._status.items() if status == fd)
        self._kill_at[pid] = boottime() + PATIENCE
        _signal(pid, signal.SIGHUP)

    def hang_up_all(self) -> None:
        for pid in self._status:
            _signal(pid, signal.SIGHUP)

    def next_kill(self) -> float | None:
        return min(self._kill_at.values(), default=None)

    def tick(self, now: float) -> None:
        for pid, at in list(self._kill_at.items()):
            if now >= at:
                del self._kill_at[pid]
                _signal(pid, signal.SIGKILL)

    def ended(self, pid: int, status: int) -> None:
        """Some child has been reaped; if it was a command, its reader is told."""
        fd = self._status.pop(pid, None)
        if fd is None:
            return
        if self._kill_at.pop(pid, None) is None:
            with contextlib.suppress(KeyError):
                self._poll.unregister(fd)
        code = os.waitstatus_to_exitcode(status)
        how = {"code": code} if code >= 0 else {"signal": -code}
        failure = self._failures.pop(pid)
        with contextlib.suppress(OSError):
            if errno := os.read(failure, 16):
                how = {"errno": int(errno)}
        os.close(failure)
        with contextlib.suppress(OSError):
            os.write(fd, dumps(how).encode())
        os.close(fd)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
