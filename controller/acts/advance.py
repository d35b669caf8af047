"""Writes what `lifecycle.advance` says of a live attempt, everything but its end."""

from collections.abc import Sequence

from controller.acts.log import Level, job_event
from controller.lifecycle import Advance, Next
from controller.records import AttemptRecord, JobRecord, WorkerRecord
from controller.state.writing import Writer
from muster.quantity import format_duration
from muster.states import WORKER_TERMINAL, AttemptPhase, JobPhase


def write_advance(
    w: Writer, job: JobRecord, attempt: AttemptRecord, workers: Sequence[WorkerRecord], step: Advance, now: float
) -> None:
    """One transaction's worth. The rows are those of this transaction, not of an older view."""
    match step.next:
        case Next.LAUNCH:
            w.move_attempt(attempt.uid, AttemptPhase.LAUNCHING, launching_at=now)
        case Next.GO:
            for worker in workers:
                w.patch_worker(worker.uid, desired="run")
        case Next.RUN:
            _run(w, job, attempt, now)
        case Next.STOP:
            _stop(w, job, attempt, workers, step, now)
        case _:
            pass


def _run(w: Writer, job: JobRecord, attempt: AttemptRecord, now: float) -> None:
    if attempt.phase is AttemptPhase.PLACED:
        w.move_attempt(attempt.uid, AttemptPhase.LAUNCHING, launching_at=now)
    w.move_attempt(attempt.uid, AttemptPhase.RUNNING, running_at=now)
    w.move_job(job.uid, JobPhase.RUNNING, reason="", message="", started_at=job.started_at or now)
    for incident in w.incidents(job_uid=job.uid):
        if incident.closed_at is None:
            cost = {**incident.cost, "relaunch": now - (incident.opened_at + sum(incident.cost.values()))}
            w.patch_incident(incident.uid, closed_at=now, cost=cost)
    resumed = f", resumed from step {attempt.resume.step}" if attempt.resume else ""
    job_event(w, job, "Running", f"attempt {attempt.number} (epoch {attempt.epoch}) is running{resumed}", now)


def _stop(
    w: Writer, job: JobRecord, attempt: AttemptRecord, workers: Sequence[WorkerRecord], step: Advance, now: float
) -> None:
    detected = now if step.reason is None else None
    w.move_attempt(
        attempt.uid,
        AttemptPhase.STOPPING,
        reason=step.reason,
        message=step.message,
        stopping_at=now,
        detected_at=detected,
        failed_at=step.failed_at,
    )
    for worker in workers:
        if worker.phase not in WORKER_TERMINAL:
            w.patch_worker(worker.uid, desired="stop", grace=step.grace, stop_reason=step.message)
    if step.reason is None:
        w.move_job(job.uid, JobPhase.RECOVERING, reason="", message=step.message)
    else:
        w.patch_job(job.uid, message=f"is being stopped: {step.message}")
    level: Level = "warning" if step.reason is None else "normal"
    job_event(
        w,
        job,
        "Stopping",
        f"{step.message}; the gang is stopped within {format_duration(step.grace)}",
        now,
        level=level,
    )
