"""What the leader tells of the attempts that go by: a line in the log for each move, and a trace when ranks run.

Only what changes while this process leads is told; a successor goes on with the next move.
"""

from collections.abc import Iterable

import structlog

from controller.picture import Picture
from controller.records import AttemptRecord, Change
from controller.telemetry.spans import started
from controller.telemetry.tracing import Export
from muster.states import AttemptPhase

log = structlog.get_logger("muster.attempts")


class Chronicle:
    """`phases` of the attempts that are known already, by uid."""

    def __init__(self, attempts: Iterable[AttemptRecord], export: Export | None) -> None:
        self._phases = {attempt.uid: attempt.phase for attempt in attempts}
        self._export = export

    def take(self, changes: Iterable[Change], picture: Picture) -> None:
        """The changes, once the picture has them."""
        for change in changes:
            record = change.record
            if isinstance(record, AttemptRecord) and self._phases.get(record.uid) is not record.phase:
                self._moved(record, picture)

    def _moved(self, attempt: AttemptRecord, picture: Picture) -> None:
        ended = attempt.phase is AttemptPhase.ENDED
        if ended:
            self._phases.pop(attempt.uid, None)
        else:
            self._phases[attempt.uid] = attempt.phase
        end = {"reason": str(attempt.reason), "why": attempt.message} if ended else {}
        log.info(
            f"attempt {attempt.phase.value.lower()}",
            job=f"{attempt.namespace}/{attempt.job_name}",
            attempt=attempt.uid,
            number=attempt.number,
            epoch=attempt.epoch,
            **end,
        )
        job = picture.jobs.get(attempt.job_uid)
        if self._export is not None and job is not None and attempt.phase is AttemptPhase.RUNNING:
            self._export(started(job, attempt, picture.workers_of(attempt.uid)))
