"""What becomes of a live attempt next: the matrix of what is expected x what its workers show.

Pure. The loop asks for every attempt that something touched or whose deadline has come, and writes what
it is told in one transaction. Invariants of the matrix:

* no rank runs before every worker of the gang is Ready (the barrier);
* the first bad end stops the whole gang; an attempt ends only when every worker is terminal;
* an exit with 0 after a stop was asked for is not a success, and everything else that exits 0 is;
* every phase has a deadline or an owner that confirms: Placed and Launching the launch timeout, Running the
  time limit and its workers, Stopping its workers (confirmed by their node, or its fence).

| attempt            | its workers                     | becomes                                   |
| ------------------ | ------------------------------- | ----------------------------------------- |
| before Stopping    | (the user wants it stopped)     | Stopping, everyone told, checkpoint grace |
| before Stopping    | one ended badly or is lost      | Stopping, the others told, kill grace     |
| before Stopping    | all exited with 0               | Ended: Succeeded                          |
| before Stopping    | all of the head role did        | Stopping: Succeeded                       |
| Placed, Launching  | a port was taken                | new ports for the gang, same attempt      |
| Placed, Launching  | all Ready                       | everyone is told to run                   |
| Placed             | one has begun                   | Launching                                 |
| Placed, Launching  | all Running or exited with 0    | Running                                   |
| Placed, Launching  | the launch timeout has passed   | Stopping: LaunchTimeout                   |
| Running            | the time limit has passed       | Stopping: TimeLimit                       |
| Running            | silent for longer than it may   | all ranks are looked at                   |
| Running            | they have been looked at        | Stopping, unless they are seen at work    |
| Stopping           | all terminal                    | Ended: as decided                         |
| any                | anything else                   | stays                                     |
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from controller.launch.roles import head_of, leads
from controller.records import AttemptRecord, JobRecord, WorkerRecord
from controller.recovery import watching
from muster.quantity import format_duration, parse_duration
from muster.reasons import End
from muster.states import WORKER_TERMINAL, AttemptPhase, WorkerPhase

DEFAULT_GRACE = 30.0
PORT_BUSY = "PORT_BUSY"


class Next(StrEnum):
    STAY = "stay"
    LAUNCH = "launch"
    NEW_PORTS = "new-ports"
    GO = "go"
    RUN = "run"
    STOP = "stop"
    END = "end"
    EXAMINE = "examine"
    JUDGE = "judge"


class Advance(Struct, frozen=True, kw_only=True):
    """`next` and what belongs to it. `reason` is set where the end is known without a verdict; `grace` in seconds."""

    next: Next
    reason: End | None = None
    message: str = ""
    grace: float = DEFAULT_GRACE
    failed_at: float | None = None


STAY = Advance(next=Next.STAY)


def advance(
    job: JobRecord, attempt: AttemptRecord, workers: Sequence[WorkerRecord], now: float, attended: float = 0.0
) -> Advance:
    """One row of the matrix above. `now` is UTC seconds; from `attended` on somebody has led without a break: a launch
    is not given up for time in which nobody could have helped it."""
    if attempt.phase is AttemptPhase.STOPPING:
        return Advance(next=Next.END, reason=attempt.reason) if _all_terminal(workers) else STAY
    if wish := _wish(job):
        return Advance(next=Next.STOP, reason=wish[0], message=wish[1], grace=save_grace(job.spec))
    if bad := [worker for worker in workers if ended_badly(worker)]:
        return Advance(
            next=Next.STOP, grace=kill_grace(job.spec), failed_at=_first_failure(bad), message=_what_failed(bad)
        )
    if all(worker.phase is WorkerPhase.EXITED for worker in workers):
        return Advance(next=Next.END, reason=End.SUCCEEDED)
    if head_is_done(job.spec, workers):
        message = f"{_head(job.spec)} has succeeded"
        return Advance(next=Next.STOP, reason=End.SUCCEEDED, message=message, grace=save_grace(job.spec))
    if attempt.phase is AttemptPhase.RUNNING:
        return _running(job, attempt, workers, now)
    return _launching(job, attempt, workers, now, attended)


def _head(spec: dict[str, Any]) -> str:
    role = head_of(spec)
    return f"role {role}" if role else "the first worker"


def head_is_done(spec: dict[str, Any], workers: Sequence[WorkerRecord]) -> bool:
    """Whether all workers whose success is the gang's have exited with 0."""
    mine = [worker for worker in workers if leads(spec, worker)]
    return bool(mine) and all(worker.phase is WorkerPhase.EXITED for worker in mine)


def _running(job: JobRecord, attempt: AttemptRecord, workers: Sequence[WorkerRecord], now: float) -> Advance:
    limit = job.spec.get("timeLimit")
    if limit and attempt.running_at is not None and now >= attempt.running_at + parse_duration(limit):
        return Advance(
            next=Next.STOP,
            reason=End.TIME_LIMIT,
            message=f"the time limit of {limit} has passed",
            grace=save_grace(job.spec),
        )
    return _watched(job, attempt, workers, now)


def _watched(job: JobRecord, attempt: AttemptRecord, workers: Sequence[WorkerRecord], now: float) -> Advance:
    """Silence is looked into, and judged when every worker has been looked at or has not answered in time."""
    at, suspect = watching.due(job, attempt), attempt.watch.suspect if attempt.watch else None
    if at is None:
        return STAY
    if suspect is None:
        return Advance(next=Next.EXAMINE) if now >= at else STAY
    running = [worker for worker in workers if worker.phase is WorkerPhase.RUNNING]
    if now < at and any(worker.examined != suspect.uid for worker in running):
        return STAY
    doing = "" if suspect.phase in watching.STEPPING else f" (phase {suspect.phase})"
    message = (
        f"no progress for {format_duration(suspect.silence)}{doing}, where {format_duration(suspect.limit)} are allowed"
    )
    failed_at = suspect.at - suspect.silence
    return Advance(next=Next.JUDGE, grace=kill_grace(job.spec), message=message, failed_at=failed_at)


def _launching(
    job: JobRecord, attempt: AttemptRecord, workers: Sequence[WorkerRecord], now: float, attended: float
) -> Advance:
    if any(worker.problem == PORT_BUSY and worker.phase is WorkerPhase.PREPARING for worker in workers):
        return Advance(next=Next.NEW_PORTS)
    started = [worker.phase in (WorkerPhase.RUNNING, WorkerPhase.EXITED) for worker in workers]
    if all(started):
        return Advance(next=Next.RUN)
    ready = [done or worker.phase is WorkerPhase.READY for worker, done in zip(workers, started, strict=True)]
    if all(ready) and any(worker.desired == "prepare" for worker in workers):
        return Advance(next=Next.GO)
    limit = job.spec.get("recovery", {}).get("launchTimeout", "10m")
    if now >= max(attempt.placed_at, attended) + parse_duration(limit):
        return Advance(
            next=Next.STOP,
            reason=End.LAUNCH_TIMEOUT,
            message=f"not every worker was running {limit} after the placement",
            grace=kill_grace(job.spec),
        )
    if attempt.phase is AttemptPhase.PLACED and any(worker.phase is not WorkerPhase.ASSIGNED for worker in workers):
        return Advance(next=Next.LAUNCH)
    return STAY


def deadline(job: JobRecord, attempt: AttemptRecord, attended: float = 0.0) -> float | None:
    """When `advance` may say something new although nothing was observed; UTC seconds."""
    if attempt.phase in (AttemptPhase.PLACED, AttemptPhase.LAUNCHING):
        limit = job.spec.get("recovery", {}).get("launchTimeout", "10m")
        return max(attempt.placed_at, attended) + parse_duration(limit)
    limit = job.spec.get("timeLimit")
    dates = [watching.due(job, attempt)]
    if attempt.phase is AttemptPhase.RUNNING and limit and attempt.running_at is not None:
        dates.append(attempt.running_at + parse_duration(limit))
    return min((date for date in dates if date is not None), default=None)


def ended_badly(worker: WorkerRecord) -> bool:
    """Lost, could not be started, or a process of it did not exit with 0 (known before the whole worker is dead)."""
    if worker.phase is WorkerPhase.LOST:
        return True
    if worker.phase is WorkerPhase.EXITED and (worker.problem or not worker.exits):
        return True
    return any(exit_.code != 0 or exit_.signal for exit_ in worker.exits)


def save_grace(spec: dict[str, Any]) -> float:
    """Seconds to save when the stop is on purpose."""
    checkpoint = spec.get("checkpoint")
    return parse_duration(checkpoint.get("grace", "30s")) if checkpoint else DEFAULT_GRACE


def kill_grace(spec: dict[str, Any]) -> float:
    """Seconds for the rest of a gang of which a part has failed."""
    return parse_duration(spec.get("recovery", {}).get("killGrace", "5s"))


def _wish(job: JobRecord) -> tuple[End, str] | None:
    if job.cancel:
        return End.CANCELLED, "cancelled by its user"
    if job.suspend:
        return End.SUSPENDED, "suspended by its user"
    if job.restart_requested:
        return End.SUPERSEDED, "restart asked for by its user"
    return None


def _all_terminal(workers: Sequence[WorkerRecord]) -> bool:
    return all(worker.phase in WORKER_TERMINAL for worker in workers)


def _first_failure(bad: Sequence[WorkerRecord]) -> float | None:
    times = [exit_.at for worker in bad for exit_ in worker.exits if (exit_.code != 0 or exit_.signal) and exit_.at]
    times += [worker.ended_at for worker in bad if worker.ended_at]
    return min(times, default=None)


def _what_failed(bad: Sequence[WorkerRecord]) -> str:
    first = bad[0]
    if first.phase is WorkerPhase.LOST:
        return f"node {first.node} was lost"
    return f"worker {first.role}-{first.index} on {first.node} ended" + (f": {first.problem}" if first.problem else "")
