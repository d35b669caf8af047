"""How long jobs run, as far as anybody can know: their declared limit, or how long the like of them ran before."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from msgspec import Struct

from controller.records import JobRecord
from controller.simulation.types import Basis
from muster.quantity import parse_duration
from muster.states import JobPhase

KEPT = 100
"""Runs that are remembered of each kind, the newest."""
OVERDUE = 0.1
"""Of the longest known run: what is expected of one that outlasts them all."""


class Expected(Struct, frozen=True):
    """Seconds from the start to the end, and what says so."""

    seconds: float
    basis: Basis


class History:
    """Lengths of runs that succeeded: by job, by program, by queue."""

    def __init__(self, jobs: Iterable[JobRecord] = ()) -> None:
        self._newest: dict[tuple[str, ...], list[float]] = {}
        self._sorted: dict[tuple[str, ...], list[float]] = {}
        for job in sorted(jobs, key=lambda job: job.finished_at or 0.0):
            self.learn(job)

    def learn(self, job: JobRecord) -> None:
        """A job that has ended. Only a success says how long the work takes."""
        if job.phase is not JobPhase.SUCCEEDED or job.started_at is None or job.finished_at is None:
            return
        for key, _ in _keys(job):
            runs = self._newest.setdefault(key, [])
            runs.append(max(0.0, job.finished_at - job.started_at))
            del runs[:-KEPT]
            self._sorted.pop(key, None)

    def expected(self, job: JobRecord, ran: float = 0.0) -> Expected | None:
        """Of a job that has run for `ran` seconds already: never less than that, never beyond its limit."""
        limit = limit_of(job)
        for key, basis in _keys(job):
            if runs := self._runs(key):
                seconds = typical(runs, ran)
                return Expected(seconds if limit is None else max(ran, min(seconds, limit)), basis)
        return None if limit is None else Expected(max(ran, limit), Basis.LIMITS)

    def _runs(self, key: tuple[str, ...]) -> Sequence[float]:
        if key not in self._sorted:
            self._sorted[key] = sorted(self._newest.get(key, ()))
        return self._sorted[key]


def typical(runs: Sequence[float], ran: float) -> float:
    """The median of those runs (ascending) that lasted longer than `ran`; of one that outlasts all, a little more."""
    longer = runs[bisect_right(runs, ran) :]
    return longer[(len(longer) - 1) // 2] if longer else ran + OVERDUE * runs[-1]


def limit_of(job: JobRecord) -> float | None:
    limit = job.spec.get("timeLimit")
    return parse_duration(limit) if limit else None


def program(job: JobRecord) -> str:
    """What a job runs, whatever it is called: its command, or its script."""
    return "\0".join(job.spec.get("command") or [str(job.spec.get("script") or "")])


def _keys(job: JobRecord) -> tuple[tuple[tuple[str, ...], Basis], ...]:
    """Who is like it, the nearest first. A job of another size is another job."""
    size = str(job.spec.get("workers", 1))
    return (
        (("job", job.namespace, job.name, size), Basis.HISTORY),
        (("program", job.namespace, program(job), size), Basis.HISTORY),
        (("queue", str(job.spec.get("queue", "default"))), Basis.QUEUE),
    )
