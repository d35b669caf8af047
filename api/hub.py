"""The agents whose streams end in this process. Used on the event loop only."""

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final

from muster.protocol import Desired, Down, Refused, encode

SAY_AGAIN: Final = 3.0
"""Seconds after which an agent must have acted upon what it was told."""


class Outbox:
    """What is on its way to one agent. Frames go in order; of what is desired only the newest goes."""

    def __init__(self, node: str, boot_id: str) -> None:
        self.node, self.boot_id = node, boot_id
        self.farewell: Refused | None = None
        self.closing = asyncio.Event()
        self._frames: deque[str] = deque()
        self._desired: Desired | None = None
        self._told: Desired | None = None
        self._waiting = asyncio.Event()
        self._silent = False
        self._behind_since: float | None = None

    def post(self, frame: Down) -> None:
        self._frames.append(encode(frame).decode())
        self._waiting.set()

    def refrain(self) -> None:
        """Nothing is desired over this stream, whatever `want` says."""
        self._silent = True

    def want(self, desired: Desired) -> None:
        """Older than what was said before: dropped. The same as before: not said again."""
        if self._silent:
            return
        before = self._desired or self._told
        if before is not None and (desired.generation <= before.generation or _same(desired, before)):
            return
        self._desired = desired
        self._waiting.set()

    def observed(self, generation: int, boottime: float) -> None:
        """What the agent acts upon. What it was told and has not got for a while is said again."""
        if self._told is None or generation >= self._told.generation:
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = boottime
        elif boottime - self._behind_since > SAY_AGAIN:
            self._behind_since = None
            self._desired = self._desired or self._told
            self._waiting.set()

    def close(self, farewell: Refused | None = None) -> None:
        self.farewell = farewell
        self.closing.set()

    async def next(self) -> str:
        """The next frame to send."""
        while not self._frames and self._desired is None:
            self._waiting.clear()
            await self._waiting.wait()
        if self._frames:
            return self._frames.popleft()
        assert self._desired is not None
        self._told, self._desired = self._desired, None
        return encode(self._told).decode()


def _same(one: Desired, other: Desired) -> bool:
    return (one.assignments, one.tasks) == (other.assignments, other.tasks)


class Hub:
    """One stream for each node: the newer replaces the older."""

    def __init__(self) -> None:
        self._streams: dict[str, Outbox] = {}

    def join(self, stream: Outbox) -> None:
        older = self._streams.get(stream.node)
        self._streams[stream.node] = stream
        if older is not None:
            older.close(Refused(code="NODE_TAKEN", message=f"a newer stream of node {stream.node} has been opened"))

    def leave(self, stream: Outbox) -> None:
        if self._streams.get(stream.node) is stream:
            del self._streams[stream.node]

    def holds(self, stream: Outbox) -> bool:
        return self._streams.get(stream.node) is stream

    def nodes(self) -> frozenset[str]:
        return frozenset(self._streams)

    def deliver(self, desired: Mapping[str, Desired]) -> None:
        for node, wanted in desired.items():
            if (stream := self._streams.get(node)) is not None:
                stream.want(wanted)

    def post(self, node: str, frame: Down) -> bool:
        """False when that node's stream does not end here."""
        stream = self._streams.get(node)
        if stream is not None:
            stream.post(frame)
        return stream is not None

    def close(self) -> None:
        for stream in self._streams.values():
            stream.close()
