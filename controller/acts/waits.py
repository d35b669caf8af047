"""Writes why jobs wait, only where it changed, and what users wish of jobs that do not run."""

from collections.abc import Iterable
from typing import Any

from controller.acts.log import job_event
from controller.acts.notify import notify
from controller.picture import Picture
from controller.records import JobRecord, Waited
from controller.scheduling.types import Wait
from controller.state.store import Store
from controller.state.types import LeaderLease
from controller.state.writing import Writer
from muster.quantity import parse_duration
from muster.reasons import Held
from muster.states import JobPhase


def write_waits(store: Store, guard: LeaderLease, picture: Picture, waits: Iterable[Wait], *, now: float) -> bool:
    """A reason is written only when it changed. True when something was written."""
    news = [wait for wait in waits if _differs(picture.jobs.get(wait.job_uid), wait)]
    if not news:
        return False
    store.transact(lambda w: _write(w, news, now), guard)
    return True


def _write(w: Writer, news: list[Wait], now: float) -> None:
    jobs = w.hold_jobs(wait.job_uid for wait in news)
    patches: list[tuple[str, dict[str, Any]]] = []
    for wait in news:
        job = jobs.get(wait.job_uid)
        if job is None or not _differs(job, wait):
            continue
        if job.reason != wait.code:
            job_event(w, job, "Waiting", f"{wait.code}: {wait.message}", now)
        fields = {"reason": str(wait.code), "message": _text(wait), "wait": waited(job, wait, now)}
        patches.append((job.uid, fields))
    w.patch_jobs(patches)


def waited(job: JobRecord, wait: Wait, now: float) -> Waited:
    """What is kept of it with the job."""
    same = job.wait is not None and job.wait.code == wait.code == job.reason
    return Waited(
        code=wait.code,
        message=wait.message,
        others=wait.others,
        helps=tuple(hint.strip() for hint in wait.helps.split(";") if hint.strip()),
        numbers=dict(wait.numbers),
        since=job.wait.since if job.wait is not None and same else now,
    )


def _text(wait: Wait) -> str:
    return f"{wait.message}; {wait.helps}" if wait.helps else wait.message


def _differs(job: JobRecord | None, wait: Wait) -> bool:
    if job is None or job.phase not in (JobPhase.QUEUED, JobPhase.RECOVERING):
        return False
    known = job.wait.others if job.wait is not None else None
    return job.reason != wait.code or job.message != _text(wait) or known != wait.others


def settle_idle(w: Writer, job: JobRecord, now: float) -> bool:
    """A job without a live attempt follows its user's wishes at once. True when something was written."""
    if job.cancel:
        moved = w.move_job(job.uid, JobPhase.CANCELLED, reason="", message="cancelled by its user", finished_at=now)
        job_event(w, job, "Cancelled", "cancelled by its user", now)
        notify(w, moved, "cancelled", now=now, message=moved.message)
        return True
    if job.phase is JobPhase.SUSPENDED:
        return _resume(w, job, now)
    if job.suspend:
        w.move_job(job.uid, JobPhase.SUSPENDED, reason=Held.BY_USER, message="suspended by its user", claim=None)
        job_event(w, job, "Suspended", "suspended by its user", now)
        return True
    if job.phase is JobPhase.RECOVERING and now >= (job.recovering_since or job.queued_at) + _recovery_timeout(job):
        w.move_job(job.uid, JobPhase.QUEUED, message="no replacement came within recoveryTimeout; queued again")
        job_event(w, job, "Requeued", "no replacement came within recoveryTimeout; everything it held is released", now)
        return True
    if job.restart_requested:
        w.patch_job(job.uid, restart_requested=False)
        return True
    return False


def _resume(w: Writer, job: JobRecord, now: float) -> bool:
    if job.suspend or (job.reason != Held.BY_USER and not job.restart_requested):
        return False
    w.move_job(job.uid, JobPhase.QUEUED, reason="", message="", queued_at=now, restart_requested=False)
    job_event(w, job, "Resumed", "back in its queue", now)
    return True


def _recovery_timeout(job: JobRecord) -> float:
    return parse_duration(job.spec.get("recovery", {}).get("recoveryTimeout", "10m"))
