"""Sums for monitoring, made by the database, so that a scrape costs the same with ten jobs and a hundred thousand."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from sqlalchemy import JSON, cast, func, select, type_coerce

from controller.records import JobRecord, ReceiptRecord
from controller.state import tables
from controller.state.kinds import JOB
from controller.state.reading import Records

_receipt = tuple(tables.receipts.c[field] for field in ReceiptRecord.__struct_fields__)
_jobs, _box, _leader = tables.jobs.c, tables.outbox.c, tables.leader.c


BUCKETS: Final = ("queued", "suspended", "starting", "productive", "lost", "recovering", "stalled", "saving")


class JobTally(Struct, frozen=True):
    """Live jobs that are alike: their number, and since when the longest has been queued (UTC seconds)."""

    queue: str
    phase: str
    reason: str
    count: int
    oldest: float


class OutboxTally(Struct, frozen=True):
    """Items in one state, and when the oldest was promised (UTC seconds)."""

    state: str
    count: int
    oldest: float


class LeaderTally(Struct, frozen=True):
    """`at`: the leader's last renewal by its own wall clock, UTC seconds; 0 before there was any."""

    holder: str
    epoch: int
    at: float


class Tallies(Records):
    """Part of a Reader."""

    def job_tallies(self) -> list[JobTally]:
        alike = (_jobs.queue, _jobs.phase, _jobs.reason)
        statement = select(*alike, func.count(), func.min(_jobs.queued_at)).where(tables.LIVE_JOB).group_by(*alike)
        return [JobTally(row[0], str(row[1]), row[2], row[3], row[4]) for row in self._connection.execute(statement)]

    def outbox_tallies(self) -> list[OutboxTally]:
        statement = select(_box.state, func.count(), func.min(_box.created_at)).where(_box.state != "done")
        return [OutboxTally(*row) for row in self._connection.execute(statement.group_by(_box.state))]

    def allocated_devices(self) -> Mapping[str, int]:
        """Devices that a worker holds, by node."""
        held = tables.allocations.c.node
        rows = self._connection.execute(select(held, func.count()).group_by(held))
        return {row[0]: row[1] for row in rows}

    def leader(self) -> LeaderTally:
        return LeaderTally(*self._connection.execute(select(_leader.holder, _leader.epoch, _leader.at)).one())

    def receipt(self, uid: str) -> ReceiptRecord | None:
        row = self._connection.execute(select(*_receipt).where(tables.receipts.c.uid == uid)).first()
        return None if row is None else ReceiptRecord(**row._mapping)

    def receipts(
        self, namespace: str | None = None, *, since: float | None = None, queue: str | None = None
    ) -> list[ReceiptRecord]:
        """Of jobs that finished at `since` (UTC seconds) or later, in the order of their ends."""
        table = tables.receipts.c
        statement = select(*_receipt).order_by(table.finished_at, table.uid)
        for column, value in ((table.namespace, namespace), (table.queue, queue)):
            if value is not None:
                statement = statement.where(column == value)
        if since is not None:
            statement = statement.where(table.finished_at >= since)
        return [ReceiptRecord(**row._mapping) for row in self._connection.execute(statement)]

    def receipt_sums(self, since: float) -> dict[str, float]:
        """Device-seconds of each bucket, of jobs that finished at `since` or later."""
        table = tables.receipts.c
        sums = [func.coalesce(func.sum(table[bucket]), 0.0) for bucket in BUCKETS]
        row = self._connection.execute(select(*sums).where(table.finished_at >= since)).one()
        return dict(zip(BUCKETS, row, strict=True))

    def without_receipt(self, limit: int) -> list[JobRecord]:
        """Finished jobs that have none yet."""
        has = select(tables.receipts.c.uid)
        statement = select(*JOB.columns).where(tables.FINISHED_JOB, _jobs.finished_at.is_not(None), ~_jobs.uid.in_(has))
        return self._read(JOB, statement.order_by(_jobs.uid).limit(limit))

    def incident_tallies(self) -> list[tuple[str, str, int]]:
        """Category, action and number of the incidents on record."""
        verdict = tables.incidents.c.verdict
        body = cast(verdict, JSON) if self._dialect == "postgresql" else type_coerce(verdict, JSON)
        what = (body["category"].as_string(), body["action"].as_string())
        rows = self._connection.execute(select(*what, func.count()).group_by(*what).order_by(*what))
        return [(row[0], row[1], row[2]) for row in rows]
