"""The one reader of the change log in this process: it tells agents what they should have, and serves every watcher
of changes from what it has read. Woken by hints; without any it looks twice a second."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct

from api import show
from api.desired import desired
from api.hub import Hub
from controller.records import AttemptRecord, Change, RepairRecord, WorkerRecord
from controller.state import Reader, SessionRecord, Store, StoreError, TooOld
from controller.state.hints import Hints
from muster.clock import iso
from muster.protocol import Desired
from muster.states import AttemptPhase

log = structlog.get_logger("muster.api")

POLL: Final = 0.5
KEPT: Final = 5_000
"""Entries that watchers get without reading the database."""
PAGE: Final = 500
GAP: Final = 0.03
"""Seconds between two looks: what comes meanwhile, as when many submit at once, is read together."""
DECIDING: Final = frozenset({"Worker", "Attempt", "Repair"})
"""Kinds of which more than the change must be read although nobody watches: agents are told by them."""
BOOKMARK: Final = 15.0
"""Seconds after which a watcher is told where it is although nothing came."""


class Entry(Struct, frozen=True):
    """One change as a watcher gets it. `text` is None when nobody watched at the time."""

    revision: int
    kind: str
    namespace: str
    text: bytes | None


class Batch(Struct, frozen=True):
    revision: int
    entries: list[Entry]
    desired: dict[str, Desired]
    inventory: bool
    sessions: list[SessionRecord]
    more: bool
    """There was no room for all that is new."""


class Follower:
    """`run` is its task. `on_inventory` is called when a node or a queue has changed, `on_sessions` with those that
    somebody waits for."""

    def __init__(
        self,
        store: Store,
        hints: Hints,
        hub: Hub,
        *,
        secret: Callable[[], str],
        on_inventory: Callable[[], None],
        on_sessions: Callable[[list[SessionRecord]], None],
    ) -> None:
        self._store, self._hub, self._secret = store, hub, secret
        self._on_inventory, self._on_sessions = on_inventory, on_sessions
        self.revision = 0
        self._looked = 0.0
        self._kept: deque[Entry] = deque(maxlen=KEPT)
        self._watchers = 0
        self.stopped = False
        self._news = asyncio.Event()
        self._hinted = asyncio.Event()
        self._pool = ThreadPoolExecutor(1, "follower")
        self._hints = hints

    async def run(self) -> None:
        """Until cancelled. A database that is away is asked again."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody to wake
                loop.call_soon_threadsafe(self._hinted.set)

        self._hints.listen(wake)
        away = False
        self.revision = -1
        while True:
            try:
                await self._catch_up()
                away = False
            except StoreError as error:
                log.log(10 if away else 30, "the change log cannot be read", error=str(error))
                away = True
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await self._hinted.wait()
            self._hinted.clear()
            await asyncio.sleep(max(0.0, self._looked + GAP - loop.time()))

    def stop(self) -> None:
        """Every watcher's stream ends."""
        self.stopped = True
        self._announce()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _catch_up(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._looked = loop.time()
            nodes, watched = self._hub.nodes(), self._watchers > 0
            try:
                batch = await loop.run_in_executor(self._pool, self._read, self.revision, nodes, watched)
            except TooOld:
                log.warning("the change log was cut behind this reader; it begins again", revision=self.revision)
                self.revision = -1
                self._kept.clear()  # what comes next does not follow on it
                continue
            before = self.revision
            self._take(batch)
            joined = self._hub.nodes() - nodes
            if joined and batch.revision != before:
                # Their streams may have begun with what was desired before these changes.
                self._hub.deliver(await loop.run_in_executor(self._pool, self._desired, joined))
            if not batch.more:
                return

    def _take(self, batch: Batch) -> None:
        if not batch.more:
            self._on_sessions(batch.sessions)
        if batch.revision == self.revision:
            return
        self.revision = batch.revision
        self._kept.extend(batch.entries)
        self._hub.deliver(batch.desired)
        if batch.inventory:
            self._on_inventory()
        self._announce()

    def _announce(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    # -- in its own thread ---------------------------------------------------------------------------

    def _read(self, after: int, nodes: frozenset[str], watched: bool) -> Batch:
        """What came after a revision. -1: nothing is known yet, so begin with now."""
        with self._store.read() as r:
            newest = r.revision()
            if after == -1:
                return Batch(newest, [], desired(r, nodes, self._secret()), True, [], True)
            if newest == after:
                return Batch(after, [], {}, False, r.sessions(), False)
            changes = r.changes(after, limit=PAGE, joined=None if watched else DECIDING)
            touched, revision = _nodes_touched(r, changes) & nodes, changes[-1].revision
            return Batch(
                revision,
                entries(r, changes, rendered=watched),
                desired(r, sorted(touched), self._secret()) if touched else {},
                any(change.kind in ("Node", "Queue") for change in changes),
                r.sessions() if revision == newest else [],
                revision < newest,
            )

    def _desired(self, nodes: frozenset[str]) -> dict[str, Desired]:
        with self._store.read() as r:
            return desired(r, sorted(nodes), self._secret())

    # -- for watchers --------------------------------------------------------------------------------

    @contextmanager
    def _watching(self) -> Iterator[None]:
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1

    async def watch(self, after: int, read: Callable[[int], Any]) -> AsyncIterator[tuple[int, Sequence[Entry]]]:
        """Pages of what came after a revision, each with the revision up to which it reaches; an empty page from time
        to time. `read(after)` gives a page from the database, off the loop. Raises TooOld."""
        with self._watching():
            while not self.stopped:
                news = self._news
                if self.revision > after:
                    found = self._buffered(after)
                    if found is None:
                        found = await read(after)
                    if found:
                        after = found[-1].revision
                        yield after, found
                        continue
                try:
                    async with asyncio.timeout(BOOKMARK):
                        await news.wait()
                except TimeoutError:
                    yield after, ()

    def _buffered(self, after: int) -> list[Entry] | None:
        """None when the buffer does not hold everything after the revision in its final form."""
        if not self._kept or self._kept[0].revision > after + 1:
            return None
        found = list(islice(self._kept, after + 1 - self._kept[0].revision, None))  # revisions have no gaps
        return None if any(entry.text is None for entry in found) else found


def entries(r: Reader, changes: Sequence[Change], *, rendered: bool) -> list[Entry]:
    """Changes as watchers get them, each with its object as it is in this snapshot."""
    records = [change.record for change in changes if change.record is not None] if rendered else []
    shown = show.objects(r, {record.uid: record for record in records}.values())
    return [
        Entry(change.revision, change.kind, change.namespace, _text(change, shown) if rendered else None)
        for change in changes
    ]


def _text(change: Change, shown: dict[str, Any]) -> bytes:
    data = {
        "revision": change.revision,
        "type": change.op,
        "kind": change.kind,
        "namespace": change.namespace,
        "name": change.name,
        "uid": change.uid,
        "at": iso(change.at),
        "object": shown.get(change.uid) if change.op == "put" else None,
    }
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (change.revision, change.op.encode(), msgspec.json.encode(data))


def _nodes_touched(r: Reader, changes: Sequence[Change]) -> set[str]:
    """Nodes whose desired state may have changed."""
    touched, ended = set(), set()
    for change in changes:
        match change.record:
            case WorkerRecord(node=node) | RepairRecord(node=node):
                touched.add(node)
            case AttemptRecord(uid=uid, phase=AttemptPhase.ENDED):
                ended.add(uid)
    for workers in r.workers_of(ended).values():
        touched |= {worker.node for worker in workers}
    return touched
