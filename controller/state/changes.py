"""The change log. Revisions are taken from one row at the end of a transaction and its lock is held until the commit
is visible, so they are gapless and in commit order: whoever has read up to N misses nothing that comes."""

from collections.abc import Collection
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import bindparam, func, select, update

from controller.records import Change, Record
from controller.state import tables
from controller.state.errors import TooOld
from controller.state.kinds import JOB, KINDS, WORKER, Kind, namespace_of
from controller.state.reading import Cluster, Facts, Jobs
from controller.state.statements import insert_into, stamping

_log = tables.changes
_after = select(_log).where(_log.c.revision > bindparam("after")).order_by(_log.c.revision).limit(bindparam("limit"))
_oldest = select(func.min(_log.c.revision))
_value = select(tables.revision.c.value)
_take = (
    update(tables.revision)
    .values(value=tables.revision.c.value + bindparam("count"))
    .returning(tables.revision.c.value)
)


class Reading(Jobs, Cluster, Facts):
    """What can be read in every transaction, a reading or a writing one."""


class Reader(Reading):
    """One consistent snapshot of everything."""

    def revision(self) -> int:
        """The newest revision in this snapshot."""
        return int(self._connection.execute(_value).scalar_one())

    def oldest_revision(self) -> int:
        """The oldest revision in the log; when it is empty, the next one."""
        found = self._connection.execute(_oldest).scalar()
        return self.revision() + 1 if found is None else int(found)

    def changes(self, after: int, limit: int = 1000, kinds: Collection[str] | None = None) -> list[Change]:
        """The first `limit` changes after a revision, in order, each with its record as it is now (None when it is
        gone). Raises TooOld when the log has been cut after that revision, or has never come so far."""
        statement = _after if kinds is None else _after.where(_log.c.kind.in_(sorted(kinds)))
        rows = self._connection.execute(statement, {"after": after, "limit": limit}).all()
        if kinds is not None or not rows or rows[0].revision != after + 1:
            oldest, newest = self.oldest_revision(), self.revision()
            if not oldest - 1 <= after <= newest:
                raise TooOld(after, oldest, newest)
        wanted: dict[str, list[str]] = {}
        for row in rows:
            wanted.setdefault(row.kind, []).append(row.uid)
        records = {name: self._by_uid(KINDS[name], uids) for name, uids in wanted.items()}
        return [Change(**row._mapping, record=records[row.kind].get(row.uid)) for row in rows]

    def _by_uid(self, kind: Kind[Any], uids: list[str]) -> dict[str, Any]:
        return {record.uid: record for record in self._among(kind, "uid", uids)}

    def snapshot(self) -> tuple[int, list[Record]]:
        """The revision and all that lives: nodes, queues, jobs that are not finished or still have a live attempt,
        live attempts with all their workers, and other workers that are not terminal."""
        live = select(tables.attempts.c.uid).where(tables.LIVE_ATTEMPT)
        busy = select(tables.attempts.c.job_uid).where(tables.LIVE_ATTEMPT)
        jobs = select(*JOB.columns).where(tables.FINISHED_JOB, tables.jobs.c.uid.in_(busy))
        workers = select(*WORKER.columns).where(tables.FINISHED_WORKER, tables.workers.c.attempt_uid.in_(live))
        revision = self.revision()
        return revision, [
            *self.nodes(),
            *self.queues(),
            *self.jobs(live_only=True),
            *self._read(JOB, jobs.order_by(tables.jobs.c.uid)),
            *self.live_attempts(),
            *self.live_workers(),
            *self._read(WORKER, workers.order_by(tables.workers.c.uid)),
        ]


class Touched(Struct, frozen=True):
    """A record that this transaction has put or deleted."""

    kind: Kind[Any]
    uid: str
    namespace: str
    name: str
    op: Literal["put", "delete"]
    event: dict[str, Any] | None = None
    """An event is inserted only at the end, when its revision is known."""


class Buffer:
    """The changes of one transaction. What is touched twice is logged once, at its last touch."""

    def __init__(self) -> None:
        self._touched: dict[tuple[str, str], Touched] = {}

    def put(self, kind: Kind[Any], record: Any, *, new_event: bool = False) -> None:
        event = kind.values(record) if new_event else None
        self._add(Touched(kind, record.uid, namespace_of(record), kind.label(record), "put", event))

    def delete(self, kind: Kind[Any], record: Any) -> None:
        self._add(Touched(kind, record.uid, namespace_of(record), kind.label(record), "delete"))

    def _add(self, touched: Touched) -> None:
        key = (touched.kind.name, touched.uid)
        self._touched.pop(key, None)
        self._touched[key] = touched

    def write(self, connection: Any, at: float) -> dict[str, int]:
        """Take the revisions, stamp the records, write the log. The revisions by uid. Nothing touched: nothing taken."""
        if not self._touched:
            return {}
        last = int(connection.execute(_take, {"count": len(self._touched)}).scalar_one())
        stamped = list(zip(self._touched.values(), range(last - len(self._touched) + 1, last + 1), strict=True))
        stamps: dict[Kind[Any], list[dict[str, Any]]] = {}
        events, log = [], []
        for one, revision in stamped:
            if one.event is not None:
                events.append(one.event | {"revision": revision})
            elif one.op == "put":
                stamps.setdefault(one.kind, []).append({"the_uid": one.uid, "revision": revision})
            log.append(_entry(one, revision, at))
        for kind, rows in stamps.items():
            connection.execute(stamping(kind), rows)
        if events:
            connection.execute(insert_into(tables.events), events)
        connection.execute(insert_into(_log), log)
        return {one.uid: revision for one, revision in stamped}


def _entry(one: Touched, revision: int, at: float) -> dict[str, Any]:
    return {
        "revision": revision,
        "kind": one.kind.name,
        "uid": one.uid,
        "namespace": one.namespace,
        "name": one.name,
        "op": one.op,
        "at": at,
    }
