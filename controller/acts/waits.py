"""Writes why jobs wait, only where it changed, and what users wish of jobs that do not run."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from controller.acts.log import job_event
from controller.acts.notify import notify
from controller.picture import Picture
from controller.records import Change, JobRecord, Waited
from controller.scheduling.types import Wait
from controller.state.store import Store
from controller.state.types import LeaderLease
from controller.state.writing import Writer
from muster.quantity import parse_duration
from muster.reasons import Held
from muster.states import JobPhase

AT_ONCE = 200
"""Reasons of which only the numbers have changed that are written at a time."""

BESIDE = frozenset({"Event", "Incident", "Measurement"})
"""Kinds of changes that no plan reads."""


class Reasons:
    """Writes why jobs wait, where it has changed. Another code, or other codes beside it, are written at once. Where only
    the numbers are others, which at each start and end may be so for all that wait, the first in the order of
    service come first and the rest little by little."""

    def __init__(self) -> None:
        self._rest: dict[str, Wait] = {}

    def write(self, store: Store, guard: LeaderLease, picture: Picture, waits: Iterable[Wait], *, now: float) -> bool:
        """Of a new plan. True when something was written."""
        changed: list[Wait] = []
        others: list[Wait] = []
        for wait in waits:
            job = picture.jobs.get(wait.job_uid)
            if _differs(job, wait):
                assert job is not None
                (others if _same_codes(job, wait) else changed).append(wait)
        self._rest = {wait.job_uid: wait for wait in others[AT_ONCE:]}
        return self._commit(store, guard, [*changed, *others[:AT_ONCE]], now)

    def write_rest(self, store: Store, guard: LeaderLease, picture: Picture, *, now: float) -> bool:
        """Some of what is left of the newest plan. True when something was written."""
        if not self._rest:
            return False
        some = [self._rest.pop(uid) for uid in list(self._rest)[:AT_ONCE]]
        return self._commit(
            store, guard, [wait for wait in some if _differs(picture.jobs.get(wait.job_uid), wait)], now
        )

    def _commit(self, store: Store, guard: LeaderLease, news: list[Wait], now: float) -> bool:
        if news:
            store.transact(lambda w: _write(w, news, now), guard)
        return bool(news)


def moves_the_plan(known: JobRecord | None, change: Change) -> bool:
    """Whether a plan may come out otherwise after a change: not when it only says why a job waits."""
    if change.kind in BESIDE:
        return False
    record = change.record
    if known is None or not isinstance(record, JobRecord) or change.op != "put":
        return True
    told = replace(known, reason=record.reason, message=record.message, wait=record.wait, revision=record.revision)
    return told != record


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


def _same_codes(job: JobRecord, wait: Wait) -> bool:
    return job.reason == wait.code and job.wait is not None and job.wait.others == wait.others


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
