"""What only an audit reads: rows that no working part asks for, so that a broken promise is seen."""

from typing import Final

from msgspec import Struct
from sqlalchemy import func, or_, select

from controller.records import AttemptRecord, JobRecord, WorkerRecord
from controller.state import tables
from controller.state.kinds import ATTEMPT, JOB, WORKER
from controller.state.outbox import select_state
from controller.state.reading import Records
from controller.state.types import OutboxItem
from muster.states import AttemptPhase

SHOWN: Final = 20
"""Offenders of one kind that are read; one is enough to know."""


class LogSpan(Struct, frozen=True):
    """The change log: how many entries, the first and the last revision (both None when it is empty)."""

    entries: int
    oldest: int | None
    newest: int | None


class Books(Records):
    """Part of a Reader."""

    def ports_held(self) -> dict[tuple[str, int], str]:
        """(host, port) to the uid of the worker that holds it."""
        held = tables.ports
        rows = self._connection.execute(select(held.c.host, held.c.port, held.c.worker_uid))
        return {(row[0], row[1]): row[2] for row in rows}

    def log_span(self) -> LogSpan:
        log = tables.changes.c.revision
        return LogSpan(*self._connection.execute(select(func.count(log), func.min(log), func.max(log))).one())

    def ended_without_reason(self) -> list[AttemptRecord]:
        """Ended attempts that lack their reason or a time of their end."""
        table = tables.attempts.c
        lacking = or_(table.reason.is_(None), table.ended_at.is_(None), table.decided_at.is_(None))
        statement = select(*ATTEMPT.columns).where(table.phase == AttemptPhase.ENDED, lacking)
        return self._read(ATTEMPT, statement.order_by(table.uid).limit(SHOWN))

    def finished_but_open(self) -> list[JobRecord]:
        """Finished jobs that still name an attempt, or have no time of their end."""
        table = tables.jobs.c
        lacking = or_(table.attempt_uid.is_not(None), table.finished_at.is_(None))
        statement = select(*JOB.columns).where(tables.FINISHED_JOB, lacking)
        return self._read(JOB, statement.order_by(table.uid).limit(SHOWN))

    def workers_left_behind(self) -> list[WorkerRecord]:
        """Workers that are not terminal although their attempt has ended."""
        ended = select(tables.attempts.c.uid).where(tables.attempts.c.phase == AttemptPhase.ENDED)
        statement = select(*WORKER.columns).where(tables.LIVE_WORKER, tables.workers.c.attempt_uid.in_(ended))
        return self._read(WORKER, statement.order_by(tables.workers.c.uid).limit(SHOWN))

    def outbox_items(self, state: str, limit: int) -> list[OutboxItem]:
        """The oldest of `due`, `done` or `dead`."""
        return select_state(self._connection, state, limit)
