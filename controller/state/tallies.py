"""Sums for monitoring, made by the database, so that a scrape costs the same with ten jobs and a hundred thousand."""

from collections.abc import Mapping

from msgspec import Struct
from sqlalchemy import JSON, cast, func, select, type_coerce

from controller.state import tables
from controller.state.reading import Records

_jobs, _box, _leader = tables.jobs.c, tables.outbox.c, tables.leader.c


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

    def incident_tallies(self) -> list[tuple[str, str, int]]:
        """Category, action and number of the incidents on record."""
        verdict = tables.incidents.c.verdict
        body = cast(verdict, JSON) if self._dialect == "postgresql" else type_coerce(verdict, JSON)
        what = (body["category"].as_string(), body["action"].as_string())
        rows = self._connection.execute(select(*what, func.count()).group_by(*what).order_by(*what))
        return [(row[0], row[1], row[2]) for row in rows]
