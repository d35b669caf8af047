"""Containers that a daemon runs are nobody's children here: they end by name, and a command proves that they are gone."""

from __future__ import annotations

import contextlib
import os

from agents.shims.processes import descendants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PAUSE = 0.5
"""Seconds before a removal that has not worked is tried again. A daemon that is away is asked for ever."""


class Removals:
    """`commands` end with 0 when there is surely nothing left. `worker` marks the processes of its containers by their
    environment, so that they are found even when their daemon does not answer."""

    def __init__(self, commands: Sequence[Sequence[str]], worker: str) -> None:
        self._left = dict(enumerate(commands))
        self._running: dict[int, int] = {}
        self._not_before = 0.0
        self._mark = f"MUSTER_WORKER_UID={worker}".encode()

    def __bool__(self) -> bool:
        """Whether there may be something left."""
        return bool(self._left)

    def start(self, now: float) -> None:
        for number, command in self._left.items():
            if number not in self._running.values() and now >= self._not_before:
                null = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in range(3)]
                pid = os.posix_spawn(command[0], list(command), os.environ, file_actions=null, setsid=True)
                self._running[pid] = number

    def ended(self, pid: int, status: int, now: float) -> None:
        """Some child has been reaped."""
        number = self._running.pop(pid, None)
        if number is None:
            return
        if status == 0:
            del self._left[number]
        else:
            self._not_before = now + PAUSE

    def own(self) -> set[int]:
        """Pids of the commands themselves."""
        return {below for pid in self._running for below in (pid, *descendants(pid))}

    def marked(self) -> set[int]:
        """Pids of the worker's containers, as far as this process may look."""
        found = set()
        for name in os.listdir("/proc") if self._left else ():
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                    if self._mark in file.read().split(b"\0"):
                        found.add(int(name))
        return found - {os.getpid()}
