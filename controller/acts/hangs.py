"""A silence that is too long: all ranks are looked at, and what they show is judged."""

from collections.abc import Sequence

from msgspec.structs import replace

from controller.acts.advance import write_advance
from controller.acts.log import job_event
from controller.lifecycle import Advance, Next
from controller.records import AttemptRecord, JobRecord, Suspicion, Watch, WorkerRecord
from controller.recovery import watching
from controller.recovery.ranks import look
from controller.state.writing import Writer
from muster.quantity import format_duration
from muster.states import WorkerPhase


def examine(
    w: Writer,
    job: JobRecord,
    attempt: AttemptRecord,
    workers: Sequence[WorkerRecord],
    now: float,
    rank: int | None = None,
) -> None:
    """Ask the agents of all its workers for stacks, states and flight recorders. `rank`: the one that stays behind."""
    watch = attempt.watch or Watch(since=attempt.running_at or now)
    silence = now - max(watch.at, watch.since, attempt.running_at or 0.0)
    allowed = watching.limit(job.spec, watch) or 0.0
    uid = f"{attempt.epoch}-{int(now * 1000)}"
    suspect = Suspicion(uid=uid, at=now, silence=silence, limit=allowed, phase=watch.phase, rank=rank)
    w.patch_attempt(attempt.uid, watch=replace(watch, suspect=suspect))
    for worker in workers:
        if worker.phase is WorkerPhase.RUNNING:
            w.patch_worker(worker.uid, examine=uid)
    what = f"rank {rank} stays behind all others" if rank is not None else f"no progress for {format_duration(silence)}"
    job_event(w, job, "HangSuspected", f"{what}; all ranks are looked at", now, level="warning")


def judge(
    w: Writer, job: JobRecord, attempt: AttemptRecord, workers: Sequence[WorkerRecord], step: Advance, now: float
) -> None:
    """Ranks that are seen at something that takes its time get the time of that phase; else the gang is stopped, and the
    verdict follows at its end."""
    watch = attempt.watch
    assert watch is not None
    assert watch.suspect is not None
    found = look(w.evidence(attempt.uid), watch.suspect.uid)
    if found is not None and found.kind == "at-work" and found.phase != watch.phase:
        w.patch_attempt(attempt.uid, watch=replace(watch, phase=found.phase, since=now, suspect=None))
        job_event(w, job, "HangDismissed", f"{step.message}, but {found.why}", now)
        return
    why = f": {found.why}" if found is not None and found.kind != "at-work" else ""
    write_advance(w, job, attempt, workers, replace(step, next=Next.STOP, message=step.message + why), now)
