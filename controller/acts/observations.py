"""Writes what an executor saw of workers. Stale epochs and impossible moves are ignored, repeats harmless."""

from collections.abc import Iterable
from typing import Any

from controller.executors.base import Observation
from controller.lifecycle import ended_badly
from controller.records import WorkerRecord
from controller.state.store import Store
from controller.state.types import LeaderLease
from controller.state.writing import Writer
from muster.states import WORKER_MOVES, AttemptPhase, WorkerPhase


def record_observations(store: Store, guard: LeaderLease, observations: Iterable[Observation]) -> None:
    with store.write(guard) as w:
        for observation in observations:
            record_observation(w, observation)


def record_observation(w: Writer, seen: Observation) -> bool:
    """True when the row changed. A worker of another attempt or epoch is not this one."""
    worker = w.worker(seen.worker_uid)
    if worker is None or worker.attempt_uid != seen.attempt_uid or worker.epoch != seen.epoch:
        return False
    if seen.evidence:
        w.add_evidence(list(seen.evidence))
    news = _news(worker, seen)
    if seen.phase is worker.phase:
        if news:
            w.patch_worker(worker.uid, **news)
        return bool(news)
    if seen.phase not in WORKER_MOVES[worker.phase]:
        return False
    moved = w.move_worker(worker.uid, seen.phase, **news, **_times(worker, seen))
    if moved.phase is WorkerPhase.EXITED and not ended_badly(moved):
        _release(w, moved)
    return True


def _release(w: Writer, worker: WorkerRecord) -> None:
    """It has ended well while its gang goes on: what it had is free at once."""
    attempt = w.attempt(worker.attempt_uid)
    if attempt is not None and attempt.phase in (AttemptPhase.PLACED, AttemptPhase.LAUNCHING, AttemptPhase.RUNNING):
        w.release_worker(worker.uid)
        w.patch_attempt(attempt.uid, succeeded=attempt.succeeded + 1)


def _news(worker: WorkerRecord, seen: Observation) -> dict[str, Any]:
    """The fields that this observation changes. A problem about an older template is no longer one."""
    news: dict[str, Any] = {}
    if seen.exits and seen.exits != worker.exits:
        news["exits"] = seen.exits
    if seen.examined and seen.examined != worker.examined:
        news["examined"] = seen.examined
    if seen.template_revision in (0, worker.template_revision):
        for field in ("problem", "message", "busy_ports"):
            if getattr(seen, field) != getattr(worker, field):
                news[field] = getattr(seen, field)
    return news


def _times(worker: WorkerRecord, seen: Observation) -> dict[str, float]:
    """A worker whose processes have ended ran, though it may have been too short to be seen: from when it was ready."""
    match seen.phase:
        case WorkerPhase.READY:
            return {"ready_at": seen.at}
        case WorkerPhase.RUNNING:
            return {"running_at": seen.at}
        case WorkerPhase.EXITED if seen.exits and worker.running_at is None and worker.desired == "run":
            return {"running_at": worker.ready_at or seen.at, "ended_at": seen.at}
        case WorkerPhase.EXITED | WorkerPhase.LOST:
            return {"ended_at": seen.at}
        case _:
            return {}
