"""Reading the change log, and the snapshot that it goes on from."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import bindparam, func, select

from controller.records import Change, Record
from controller.state import tables
from controller.state.audit import Books
from controller.state.errors import TooOld
from controller.state.kinds import CHECKPOINT, JOB, KINDS, POLICIES, WORKER, Kind
from controller.state.reading import Cluster, Facts, Jobs
from controller.state.tallies import Tallies

_log = tables.changes
_after = select(_log).where(_log.c.revision > bindparam("after")).order_by(_log.c.revision).limit(bindparam("limit"))
_oldest = select(func.min(_log.c.revision))
_value = select(tables.revision.c.value)


class Reading(Jobs, Cluster, Facts):
    """What can be read in every transaction, a reading or a writing one."""


class Reader(Reading, Books, Tallies):
    """One consistent snapshot of everything."""

    def revision(self) -> int:
        """The newest revision in this snapshot."""
        return int(self._connection.execute(_value).scalar_one())

    def oldest_revision(self) -> int:
        """The oldest revision in the log; when it is empty, the next one."""
        found = self._connection.execute(_oldest).scalar()
        return self.revision() + 1 if found is None else int(found)

    def changes(
        self,
        after: int,
        limit: int = 1000,
        kinds: Collection[str] | None = None,
        joined: Collection[str] | None = None,
    ) -> list[Change]:
        """The first `limit` changes after a revision, in order, each with its record as it is now (None when it is
        gone, or of a kind that is not in `joined`). Raises TooOld when the log has been cut after that revision, or has
        never come so far."""
        statement = _after if kinds is None else _after.where(_log.c.kind.in_(sorted(kinds)))
        rows = self._connection.execute(statement, {"after": after, "limit": limit}).all()
        if kinds is not None or not rows or rows[0].revision != after + 1:
            oldest, newest = self.oldest_revision(), self.revision()
            if not oldest - 1 <= after <= newest:
                raise TooOld(after, oldest, newest)
        wanted: dict[str, list[str]] = {}
        for row in rows:
            if joined is None or row.kind in joined:
                wanted.setdefault(row.kind, []).append(row.uid)
        found = {
            (name, uid): one for name, uids in wanted.items() for uid, one in self._by_uid(KINDS[name], uids).items()
        }
        return [Change(**row._mapping, record=found.get((row.kind, row.uid))) for row in rows]

    def _by_uid(self, kind: Kind[Any], uids: list[str]) -> dict[str, Any]:
        return {record.uid: record for record in self._among(kind, "uid", uids)}

    def snapshot(self) -> tuple[int, list[Record]]:
        """The revision and all that lives: nodes, queues, jobs that are not finished or still have a live attempt, their
        complete checkpoints, what past runs of programs needed, live attempts with all their workers, and other workers that are not terminal."""
        live = select(tables.attempts.c.uid).where(tables.LIVE_ATTEMPT)
        busy = select(tables.attempts.c.job_uid).where(tables.LIVE_ATTEMPT)
        jobs = select(*JOB.columns).where(tables.FINISHED_JOB, tables.jobs.c.uid.in_(busy))
        workers = select(*WORKER.columns).where(tables.FINISHED_WORKER, tables.workers.c.attempt_uid.in_(live))
        saved = select(*CHECKPOINT.columns).where(
            tables.checkpoints.c.complete.is_(True),
            tables.checkpoints.c.job_uid.in_(select(tables.jobs.c.uid).where(tables.LIVE_JOB)),
        )
        revision = self.revision()
        return revision, [
            *self.nodes(),
            *self.queues(),
            *self.programs(),
            *(record for kind in POLICIES for record in self._all(POLICIES[kind], ("name",))),
            *self.jobs(live_only=True),
            *self._read(JOB, jobs.order_by(tables.jobs.c.uid)),
            *self._read(CHECKPOINT, saved.order_by(tables.checkpoints.c.uid)),
            *self.live_attempts(),
            *self.live_workers(),
            *self._read(WORKER, workers.order_by(tables.workers.c.uid)),
        ]
