"""What the ranks print: rotated files, written by a thread of its own with a bounded backlog.

A slow disk fills the backlog, a full one refuses; both cost output, which a marker line in the stream
tells, and neither ever makes a rank wait.
"""

from __future__ import annotations

import os
from _queue import SimpleQueue
from _thread import start_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

BACKLOG = 8 * 2**20
"""Bytes of output held in memory for a slow disk, all streams together."""
SEGMENTS = 8
"""Files into which the limit of a stream is cut."""
RING = 2
"""Files kept of what a stream has beyond its limit: its newest."""


class Stream:
    """One log stream: files `streams/NAME.OFFSET.log`, OFFSET being that of the file's first byte in the stream.

    Its first `limit` bytes are the agent's to remove, once they are in the log store; beyond them only the newest files
    are kept. So whoever prints faster than logs are copied loses neither the beginning nor the end."""

    def __init__(self, name: str, limit: int) -> None:
        self._name, self._segment, self._limit = name, max(65536, limit // SEGMENTS), limit
        self._ring: list[str] = []
        self._fd, self._size, self._offset = -1, 0, 0
        self._lost, self._why = 0, ""
        self.dropped = 0
        """Bytes that the main thread dropped because the backlog was full."""

    def write(self, data: bytes) -> OSError | None:
        """Returns the error with which losing has begun, None otherwise."""
        try:
            if self._lost:
                self._put(b"\n[muster: %d bytes of output lost: %s]\n" % (self._lost, self._why.encode()))
                self._lost = 0
            self._put(data)
        except OSError as error:
            first, self._why = not self._lost, error.strerror or str(error)
            self._lost += len(data)
            return error if first else None
        return None

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self._fd < 0 or self._size >= self._segment:
                self._rotate()
            done = os.write(self._fd, view[: self._segment - self._size])
            self._size, self._offset = self._size + done, self._offset + done
            view = view[done:]

    def _rotate(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        while len(self._ring) >= RING:
            os.unlink(self._ring.pop(0))
        path = f"streams/{self._name}.{self._offset:020d}.log"
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        if self._offset >= self._limit:
            self._ring.append(path)
        self._size = 0


class LogWriter:
    """The writing thread. `on_error` is called from it when a disk begins to refuse."""

    def __init__(self, on_error: Callable[[OSError], None]) -> None:
        self._queue: SimpleQueue[tuple[Stream, bytes]] = SimpleQueue()
        self._on_error = on_error
        self._queued = self._written = 0
        start_new_thread(self._run, ())

    def put(self, stream: Stream, data: bytes) -> None:
        if self._queued - self._written + len(data) > BACKLOG:
            stream.dropped += len(data)
            return
        if stream.dropped:
            data = b"\n[muster: %d bytes of output dropped: the disk is too slow]\n" % stream.dropped + data
            stream.dropped = 0
        self._queued += len(data)
        self._queue.put((stream, data))

    def settled(self) -> bool:
        return self._queued == self._written

    def _run(self) -> None:
        while True:
            stream, data = self._queue.get()
            error = stream.write(data)
            if error is not None:
                self._on_error(error)
            self._written += len(data)
