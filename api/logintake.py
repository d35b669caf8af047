"""What one agent sends of its workers' logs, on its way into the store: gathered, appended, acknowledged."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import structlog
from msgspec import Struct

from api.logstore import Place
from api.services import Services
from muster.protocol import LogAck, LogChunk

log = structlog.get_logger("muster.api")

ENOUGH: Final = 256 * 1024
"""Bytes that are appended at once, without waiting for more."""

Stream = tuple[str, int | None]


class Run(Struct, frozen=True):
    """Pieces of one stream without a gap between them."""

    worker_uid: str
    rank: int | None
    offset: int
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class Until(Protocol):
    """Work off the loop, done again until the disk or the database takes it."""

    def __call__(self, work: Callable[[], None], /) -> Awaitable[None]: ...


class Intake:
    """`acknowledge` is called when bytes are in the store for good."""

    def __init__(self, here: Services, node: str, acknowledge: Callable[[LogAck], None]) -> None:
        self._here, self._node, self._acknowledge = here, node, acknowledge
        self._chunks: list[LogChunk] = []
        self._bytes = 0
        self._some, self._enough = asyncio.Event(), asyncio.Event()
        self._places: dict[str, Place | None] = {}

    def add(self, chunk: LogChunk) -> None:
        """Agents keep a window, so there is never much."""
        self._chunks.append(chunk)
        self._bytes += len(chunk.data)
        self._some.set()
        if self._bytes >= ENOUGH:
            self._enough.set()

    async def run(self, until_done: Until) -> None:
        while True:
            await self._some.wait()
            if self._here.logs.gather:
                await asyncio.wait((asyncio.ensure_future(self._enough.wait()),), timeout=self._here.logs.gather)
            chunks, self._chunks, self._bytes = self._chunks, [], 0
            self._some.clear()
            self._enough.clear()
            for run in runs(chunks):
                await until_done(lambda: self._keep(run))  # noqa: B023
                self._acknowledge(LogAck(worker_uid=run.worker_uid, rank=run.rank, begin=run.offset, offset=run.end))

    def _keep(self, run: Run) -> None:
        """What is not this node's is thrown away: acknowledged, since the agent would send it for ever."""
        if run.worker_uid not in self._places:
            with self._here.store.read() as r:
                worker = r.worker(run.worker_uid)
            known = worker is not None and worker.node == self._node
            self._places[run.worker_uid] = Place.of(worker) if known and worker is not None else None
        place = self._places[run.worker_uid]
        if place is None or not place.has(run.rank) or run.offset < 0:
            log.warning("a log that this node does not have", node=self._node, worker=run.worker_uid, rank=run.rank)
            return
        self._here.logs.append(place, run.rank, run.offset, run.data)
        self._here.metrics.logged_bytes.inc(len(run.data))


def runs(chunks: list[LogChunk]) -> list[Run]:
    """Chunks that follow each other in their stream are joined; the order of the streams stays. Pure."""
    found: dict[Stream, list[tuple[int, list[bytes]]]] = {}
    for chunk in chunks:
        data = chunk.data.encode(errors="replace")
        begun = found.setdefault((chunk.worker_uid, chunk.rank), [])
        if begun and begun[-1][0] + sum(map(len, begun[-1][1])) == chunk.offset:
            begun[-1][1].append(data)
        else:
            begun.append((chunk.offset, [data]))
    return [Run(uid, rank, at, b"".join(parts)) for (uid, rank), all_ in found.items() for at, parts in all_]
