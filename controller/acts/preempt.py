"""Commits an eviction: every victim is told to save and go, and the beneficiary gets its claim, or nothing happens."""

from controller.acts.advance import write_advance
from controller.acts.log import job_event
from controller.lifecycle import Advance, Next, save_grace
from controller.records import AttemptRecord, Claim, JobRecord, WorkerRecord
from controller.scheduling.types import Eviction, Victim
from controller.state.writing import Writer
from muster.reasons import End
from muster.states import WORKER_TERMINAL, AttemptPhase, JobPhase

_WAITING = (JobPhase.QUEUED, JobPhase.RECOVERING)
_GOING = (AttemptPhase.STOPPING, AttemptPhase.ENDED)

Found = tuple[JobRecord, AttemptRecord, list[WorkerRecord]]


def commit_eviction(w: Writer, eviction: Eviction, *, now: float) -> bool:
    """True when the victims are told; False when the world has changed since it was planned (nothing is written)."""
    job = w.job(eviction.job_uid)
    if job is None or job.phase not in _WAITING or job.cancel or job.suspend:
        return False
    found = [_victim(w, victim) for victim in eviction.victims]
    victims = [victim for victim in found if victim is not None]
    if len(victims) < len(found):
        return False
    vacating: list[str] = []
    for other, attempt, workers in victims:
        message = f"makes room for {job.namespace}/{job.name}"
        grace = save_grace(other.spec)
        step = Advance(next=Next.STOP, reason=End.PREEMPTED, message=message, grace=grace)
        write_advance(w, other, attempt, workers, step, now)
        vacating += [worker.uid for worker in workers if worker.phase not in WORKER_TERMINAL]
    claim = Claim(nodes=tuple(worker.node for worker in eviction.workers), vacating=tuple(vacating), made_at=now)
    w.patch_job(job.uid, claim=claim)
    names = ", ".join(sorted(f"{other.namespace}/{other.name}" for other, _, _ in victims))
    job_event(w, job, "Claimed", f"{', '.join(dict.fromkeys(claim.nodes))}; {names} makes room", now)
    return True


def drop_claim(w: Writer, job_uid: str) -> bool:
    """A claim that nobody is left to vacate serves no more."""
    job = w.job(job_uid)
    if job is None or job.claim is None:
        return False
    w.patch_job(job_uid, claim=None)
    return True


def _victim(w: Writer, victim: Victim) -> Found | None:
    """The rows of a victim that still runs whole. Giving up single workers needs a gang that can shrink while it runs,
    which no framework here does yet."""
    attempt, job = w.attempt(victim.attempt_uid), w.job(victim.job_uid)
    if attempt is None or job is None or attempt.phase in _GOING or victim.workers:
        return None
    return job, attempt, w.workers(attempt.uid)
