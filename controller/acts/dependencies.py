"""Writes which jobs of `after` have done what a job waits for."""

from controller.acts.log import job_event
from controller.dependencies import look
from controller.records import JobRecord, Unmet
from controller.state import Reading
from controller.state.writing import Writer
from muster.states import JOB_TERMINAL


def has_news(r: Reading, job: JobRecord) -> bool:
    return (job.met, job.unmet) != _look(r, job)


def write_dependencies(w: Writer, uid: str, now: float) -> bool:
    """True when something was written."""
    job = w.job(uid)
    if job is None or job.phase in JOB_TERMINAL:
        return False
    met, unmet = _look(w, job)
    if (job.met, job.unmet) == (met, unmet):
        return False
    w.patch_job(uid, met=met, unmet=unmet)
    for name in met:
        if name not in job.met:
            job_event(w, job, "DependencyMet", f"{name} has done what was waited for", now)
    return True


def _look(r: Reading, job: JobRecord) -> tuple[tuple[str, ...], tuple[Unmet, ...]]:
    return look(job, lambda name: r.job_named(job.namespace, name))
