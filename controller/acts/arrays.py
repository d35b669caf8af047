"""Writes what `controller.arrays` decides: elements, the array's phase, and its user's wishes for all elements."""

from collections.abc import Callable
from typing import Any

from controller.acts.log import job_event
from controller.acts.notify import notify
from controller.acts.waits import waited
from controller.arrays import BY_USER, SUSPENDING, Next, decide, element
from controller.dependencies import waits
from controller.records import JobRecord
from controller.state.writing import Writer
from muster.reasons import Waiting
from muster.states import JOB_TERMINAL, JobPhase

_WAY = {
    JobPhase.QUEUED: JobPhase.STARTING,
    JobPhase.STARTING: JobPhase.RUNNING,
    JobPhase.SUSPENDED: JobPhase.QUEUED,
}
_NOTIFIED = {JobPhase.SUCCEEDED: "succeeded", JobPhase.FAILED: "failed", JobPhase.CANCELLED: "cancelled"}


def write_array(w: Writer, uid: str, *, now: float, new_id: Callable[[], str]) -> bool:
    """True when something was written."""
    job = w.job(uid)
    if job is None or job.phase in JOB_TERMINAL:
        return False
    wrote = _pass_on(w, job, now)
    step = decide(job, w.phases_of_elements(uid))
    taken = _make(w, job, step.make, now, new_id)
    if step.make:
        wrote = True
    message = f"the name {taken} belongs to another live job; {step.message}" if taken else step.message
    if step.phase is not job.phase:
        _walk(w, job, step, message, now)
        return True
    if (job.message, job.reason) != (message, step.reason):
        fields: dict[str, Any] = {"message": message, "reason": step.reason}
        if step.reason == Waiting.DEPENDENCY and job.unmet:
            fields["wait"] = waited(job, waits(uid, job.unmet, len(job.spec["after"])), now)
        w.patch_job(uid, **fields)
        return True
    return wrote


def _pass_on(w: Writer, job: JobRecord, now: float) -> bool:
    """What is wished of the array is wished of each of its live elements."""
    fields: dict[str, Any] = {"cancel": True} if job.cancel else {"suspend": job.suspend}
    if not (job.cancel or job.suspend or job.reason in (BY_USER, SUSPENDING)):
        return False
    (wish, value), wrote = next(iter(fields.items())), False
    for one in w.live_elements(job.uid):
        if getattr(one, wish) != value:
            w.patch_job(one.uid, wished_at=now, **fields)
            wrote = True
    return wrote


def _make(w: Writer, job: JobRecord, places: range, now: float, new_id: Callable[[], str]) -> str:
    """The name that stood in the way, where one did: the elements before it are made."""
    made = [element(job, place, new_id(), now) for place in places]
    names = w.live_names(job.namespace, [one.name for one in made]) if made else {}
    stop = next((at for at, one in enumerate(made) if one.name in names), len(made))
    if stop:
        w.insert_jobs(made[:stop])
        w.patch_job(job.uid, made=job.made + stop)
    return made[stop].name if stop < len(made) else ""


def _walk(w: Writer, job: JobRecord, step: Next, message: str, now: float) -> None:
    """Over the legal moves to where it is now."""
    over = step.phase in JOB_TERMINAL
    at = job.phase
    while step.phase in (JobPhase.RUNNING, JobPhase.SUCCEEDED) and at is not JobPhase.RUNNING:
        at = _WAY[at]
        w.move_job(job.uid, at)
    fields: dict[str, Any] = {"reason": step.reason, "message": message}
    if step.phase is JobPhase.RUNNING or step.phase is JobPhase.SUCCEEDED:
        fields["started_at"] = job.started_at or now
    if over:
        fields["finished_at"] = now
    moved = w.patch_job(job.uid, **fields) if at is step.phase else w.move_job(job.uid, step.phase, **fields)
    reason = str(step.phase) if over else {JobPhase.QUEUED: "Resumed"}.get(step.phase, str(step.phase))
    level = "warning" if step.phase is JobPhase.FAILED else "normal"
    job_event(w, job, reason, message or str(step.phase), now, level=level)  # type: ignore[arg-type]
    if over:
        notify(w, moved, _NOTIFIED[step.phase], now=now, message=message)
