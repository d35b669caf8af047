"""A trace on a cluster: what waits how long, how much is used, when it is over.

    run(index, jobs, step=0) -> Outlook

Pure. The planner of production, under a virtual clock that begins with the first submission.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from controller.records import JobRecord
from controller.scheduling.index import ClusterIndex
from controller.simulation.future import Future
from controller.simulation.trace import TraceJob
from muster.quantity import parse_duration

POINTS = 2_000
"""Moments in a picture, at most."""
STILL = 100
"""Plans in a row that start nothing, with nothing running and nothing to come, after which nothing will ever start."""


class Spread(Struct, frozen=True, kw_only=True):
    """Seconds; None without any."""

    count: int
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    longest: float | None


class QueueOutlook(Struct, frozen=True, kw_only=True):
    jobs: int
    started: int
    waits: Spread


class Moment(Struct, frozen=True):
    """Devices in use, jobs that wait and jobs that run, from this moment on."""

    at: float
    used: int
    waiting: int
    running: int


class Outlook(Struct, frozen=True, kw_only=True):
    """Times in seconds. `utilisation` in percent of the devices' time, by kind, until the last end. `completion`: from
    submission to end. `limited` ended at their time limit before their work was done."""

    nodes: int
    devices: dict[str, int]
    jobs: int
    started: int
    finished: int
    never_started: int
    limited: int
    evictions: int
    waits: Spread
    completion: Spread
    makespan: float
    utilisation: dict[str, float]
    queues: dict[str, QueueOutlook]
    plans: int
    moments: list[Moment]
    unplaced: list[str]
    """The first of those that never started."""


class _Run:
    def __init__(self, index: ClusterIndex, jobs: Sequence[TraceJob]) -> None:
        self.first = jobs[0].submitted if jobs else 0.0
        self.jobs = {f"trace-{number:07}": job for number, job in enumerate(jobs)}
        self.future = Future(index, 0.0, self._span, {})
        self.begun: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.evictions = self.submitted = self.limited = 0
        self.kinds = {kind: int(index.total.kind(kind).sum()) for kind in sorted(index.total.devices)}
        self.held = dict.fromkeys(self.kinds, 0.0)
        self.moments: list[Moment] = []

    def _span(self, job: JobRecord) -> float:
        length, limit = self.jobs[job.uid].duration, job.spec.get("timeLimit")
        if limit is not None and parse_duration(limit) < length:
            self.limited += 1
            return parse_duration(limit)
        return length

    def submit(self, uids: Iterable[str]) -> None:
        records = []
        for uid in uids:
            job = self.jobs[uid]
            at = job.submitted - self.first
            records.append(
                JobRecord(uid=uid, namespace=job.namespace, name=job.name, spec=job.spec, created_at=at, queued_at=at)
            )
        self.submitted += len(records)
        self.future.put(*records)

    def pass_to(self, at: float) -> None:
        span = at - self.future.now
        for kind in self.kinds:
            self.held[kind] += span * self._used(kind)
        for uid in self.future.until(at):
            self.ended[uid] = self.future.now

    def settle(self) -> bool:
        """True when something started."""
        started = self.future.settle()
        for one in started:
            self.begun.setdefault(one.job_uid, one.at)
            self.evictions += one.again
        used = sum(self._used(kind) for kind in self.kinds)
        waiting = len(self.future.index.gangs)
        running = self.submitted - len(self.ended) - waiting
        self.moments.append(Moment(self.future.now, used, waiting, running))
        return bool(started)

    def _used(self, kind: str) -> int:
        index = self.future.index
        return self.kinds[kind] - int(index.free.kind(kind).sum())


def run(
    index: ClusterIndex,
    jobs: Sequence[TraceJob],
    *,
    step: float = 0.0,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Outlook:
    """`jobs` in the order of submission. Plans at every submission and end, or, with `step`, at most every so many
    seconds. `progress(ended, all)` is called now and then."""
    going = _Run(index, jobs)
    coming = list(going.jobs)[::-1]
    still = 0
    while (coming or going.future.next_at is not None) and still < STILL:
        times = [going.future.next_at] if going.future.next_at is not None else []
        if coming:
            times.append(going.jobs[coming[-1]].submitted - going.first)
        at = max(min(times), going.future.now)
        at = max(at, math.ceil(at / step) * step) if step else at
        going.pass_to(at)
        fresh = []
        while coming and going.jobs[coming[-1]].submitted - going.first <= at:
            fresh.append(coming.pop())
        going.submit(fresh)
        still = 0 if going.settle() or coming or going.future.next_end is not None else still + 1
        progress(len(going.ended), len(jobs))
    return _outlook(index, going)


def _outlook(index: ClusterIndex, going: _Run) -> Outlook:
    waits = {uid: at - (going.jobs[uid].submitted - going.first) for uid, at in going.begun.items()}
    whole = {uid: at - (going.jobs[uid].submitted - going.first) for uid, at in going.ended.items()}
    makespan = max(going.ended.values(), default=0.0)
    never = [uid for uid in going.jobs if uid not in going.begun]
    return Outlook(
        nodes=len(index.nodes),
        devices=going.kinds,
        jobs=len(going.jobs),
        started=len(going.begun),
        finished=len(going.ended),
        never_started=len(never),
        limited=going.limited,
        evictions=going.evictions,
        waits=spread(waits.values()),
        completion=spread(whole.values()),
        makespan=makespan,
        utilisation={
            kind: round(100 * going.held[kind] / (total * makespan), 2) if total and makespan else 0.0
            for kind, total in going.kinds.items()
        },
        queues=_by_queue(going, waits),
        plans=going.future.plans,
        moments=thinned(going.moments),
        unplaced=[f"{going.jobs[uid].namespace}/{going.jobs[uid].name}" for uid in never[:20]],
    )


def _by_queue(going: _Run, waits: dict[str, float]) -> dict[str, QueueOutlook]:
    members: dict[str, list[str]] = {}
    for uid, job in going.jobs.items():
        members.setdefault(job.spec["queue"], []).append(uid)
    return {
        queue: QueueOutlook(
            jobs=len(uids),
            started=sum(uid in waits for uid in uids),
            waits=spread(waits[uid] for uid in uids if uid in waits),
        )
        for queue, uids in sorted(members.items())
    }


def spread(values: Iterable[float]) -> Spread:
    """Nearest-rank percentiles."""
    found = np.sort(np.fromiter(values, dtype=np.float64))
    if not len(found):
        return Spread(count=0, mean=None, p50=None, p90=None, p99=None, longest=None)
    ranks = {name: float(found[max(0, math.ceil(share * len(found)) - 1)]) for name, share in _SHARES.items()}
    return Spread(count=len(found), mean=float(found.mean()), longest=float(found[-1]), **ranks)


_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def thinned(moments: Sequence[Moment]) -> list[Moment]:
    """At most `POINTS`, the first and the last among them."""
    if len(moments) <= POINTS:
        return list(moments)
    picked = sorted({round(place) for place in np.linspace(0, len(moments) - 1, POINTS)})
    return [replace(moments[place]) for place in picked]
