"""Commits an eviction: every victim is told to save and go, or to go on smaller, and the beneficiary gets its claim, or
nothing happens."""

from collections.abc import Sequence

from msgspec import Struct

from controller.acts.advance import write_advance
from controller.acts.log import job_event
from controller.lifecycle import Advance, Next, save_grace
from controller.records import AttemptRecord, Claim, JobRecord, WorkerRecord
from controller.scheduling.types import Eviction, Stop, Victim
from controller.state.writing import Writer
from muster.reasons import End
from muster.states import WORKER_TERMINAL, AttemptPhase, JobPhase

OVERDUE = 30.0
"""Seconds after the longest grace at which who was told to go should be gone for certain."""

WAITING = (JobPhase.QUEUED, JobPhase.RECOVERING)
_GOING = (AttemptPhase.STOPPING, AttemptPhase.ENDED)


class Running(Struct, frozen=True):
    """A gang that runs, as its rows say. `workers` are those that are not over, in rank order."""

    job: JobRecord
    attempt: AttemptRecord
    workers: tuple[WorkerRecord, ...]

    @property
    def grace(self) -> float:
        return save_grace(self.job.spec)

    @property
    def label(self) -> str:
        return f"{self.job.namespace}/{self.job.name}"


def commit_eviction(w: Writer, eviction: Eviction, *, now: float) -> bool:
    """True when the victims are told; False when the world has changed since it was planned (nothing is written)."""
    job = w.job(eviction.job_uid)
    if job is None or job.phase not in WAITING or job.cancel or job.suspend:
        return False
    found = [(victim, running(w, victim.job_uid, victim.attempt_uid)) for victim in eviction.victims]
    known = [(victim, gang) for victim, gang in found if gang is not None and _holds(gang, victim.workers)]
    if len(known) < len(found):
        return False
    vacating = list(eviction.awaited)
    for victim, gang in known:
        vacating += _shrink(w, gang, victim, job, now) if victim.workers else _evict(w, gang, job, now)
    graces = [gang.grace for _, gang in known] + [worker.grace for uid in eviction.awaited if (worker := w.worker(uid))]
    claim(w, job, [placed.node for placed in eviction.workers], vacating, graces, now)
    names = ", ".join(sorted(gang.label for _, gang in known))
    said = f"{names} makes room" if names else "it is being vacated already"
    nodes = dict.fromkeys(placed.node for placed in eviction.workers)
    job_event(w, job, "Claimed", f"{', '.join(nodes)}; {said}", now)
    return True


def commit_stop(w: Writer, wanted: Stop, *, now: float) -> bool:
    """A gang goes from where it runs, with the time to save; it is queued again."""
    gang = running(w, wanted.job_uid, wanted.attempt_uid)
    if gang is None:
        return False
    stop(w, gang, End.DRAINED, wanted.message, now)
    return True


def drop_claim(w: Writer, job_uid: str) -> bool:
    """A claim that nobody is left to vacate serves no more."""
    job = w.job(job_uid)
    if job is None or job.claim is None:
        return False
    w.patch_job(job_uid, claim=None)
    return True


def running(w: Writer, job_uid: str, attempt_uid: str) -> Running | None:
    """The rows of a gang that nobody has told to stop yet."""
    attempt, job = w.attempt(attempt_uid), w.job(job_uid)
    if attempt is None or job is None or attempt.phase in _GOING:
        return None
    workers = tuple(worker for worker in w.workers(attempt.uid) if worker.phase not in WORKER_TERMINAL)
    return Running(job, attempt, workers)


def stop(w: Writer, gang: Running, reason: End, message: str, now: float) -> None:
    """The whole gang is told, with the time to save."""
    step = Advance(next=Next.STOP, reason=reason, message=message, grace=gang.grace)
    write_advance(w, gang.job, gang.attempt, w.workers(gang.attempt.uid), step, now)


def claim(
    w: Writer, job: JobRecord, nodes: Sequence[str], vacating: Sequence[str], graces: Sequence[float], now: float
) -> None:
    """Promise these nodes, one name for each worker, until those who vacate them should be gone."""
    deadline = now + max(graces, default=0.0) + OVERDUE
    made = Claim(nodes=tuple(nodes), vacating=tuple(vacating), made_at=now, deadline=deadline)
    w.patch_job(job.uid, claim=made)


def _holds(gang: Running, workers: Sequence[str]) -> bool:
    return set(workers) <= {worker.uid for worker in gang.workers}


def _evict(w: Writer, gang: Running, job: JobRecord, now: float) -> list[str]:
    stop(w, gang, End.PREEMPTED, f"makes room for {job.namespace}/{job.name}", now)
    return [worker.uid for worker in gang.workers]


def _shrink(w: Writer, gang: Running, victim: Victim, job: JobRecord, now: float) -> list[str]:
    """It begins anew on the nodes that it keeps, from its newest checkpoint: they are its own claim."""
    stays = [worker.node for worker in gang.workers if worker.uid not in victim.workers]
    change = f"goes on with {len(stays)} of {len(gang.workers)} workers"
    stop(w, gang, End.RESIZED, f"{change}, so that {job.namespace}/{job.name} can start", now)
    claim(w, gang.job, stays, [worker.uid for worker in gang.workers], [gang.grace], now)
    return list(victim.workers)
