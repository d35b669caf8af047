"""The shim's diary: one JSON object a line, in order, fsynced by a thread of its own.

Room for what is to come is reserved with newlines, so a full disk cannot keep an exit code out of it.
"""

from __future__ import annotations

import os
import time
from _queue import SimpleQueue  # the C class alone: `queue` would bring `threading`, and a shim is to stay small
from _thread import start_new_thread

from agents.shims.plain import dumps

TYPE_CHECKING = False  # `typing` would cost a shim two megabytes
if TYPE_CHECKING:
    from collections.abc import Callable

RETRY = 0.5
"""Seconds between tries to write while the disk refuses."""


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Diary:
    """Appends events; each gets `t` (CLOCK_BOOTTIME) and `at` (UTC seconds). `grown` is called by the diary's thread
    when events have become durable. A refusing disk is asked for ever: an exit code is never dropped."""

    def __init__(self, path: str, reserve: int, grown: Callable[[], None]) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        used = len(os.pread(self._fd, os.fstat(self._fd).st_size, 0).rstrip(b"\n"))
        self._end = used + 1 if used else 0
        os.pwrite(self._fd, b"\n" * (reserve + 1), used)
        self._queue: SimpleQueue[bytes] = SimpleQueue()
        self._grown = grown
        self.appended = self.durable = 0
        start_new_thread(self._run, ())

    def append(self, event: str, **fields: object) -> None:
        self.appended += 1
        entry = {"event": event, "t": round(boottime(), 6), "at": round(time.time(), 6), **fields}
        self._queue.put(dumps(entry).encode() + b"\n")

    def settled(self) -> bool:
        return self.durable == self.appended

    def wait(self) -> None:
        while not self.settled():
            time.sleep(0.0005)

    def close(self) -> None:
        """Gives the rest of the reserved room back."""
        os.ftruncate(self._fd, self._end)
        os.close(self._fd)

    def _run(self) -> None:
        while True:
            lines = [self._queue.get()]
            while not self._queue.empty():
                lines.append(self._queue.get())
            self._write(b"".join(lines))
            self.durable += len(lines)
            self._grown()

    def _write(self, data: bytes) -> None:
        while True:
            try:
                done = 0
                while done < len(data):
                    done += os.pwrite(self._fd, data[done:], self._end + done)
                os.fsync(self._fd)
                self._end += len(data)
                return
            except OSError:
                time.sleep(RETRY)
