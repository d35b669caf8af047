"""When waiting jobs start: the planner, run forward over the ends of what runs.

    forecast(index, now, history) -> Forecast

Pure. The first `FIRST` in the order of service are planned one by one; the rest get a bound. Ends that lie close
together, compared with how far away they are, are taken together: a start in an hour need not be known to the second.
"""

from collections.abc import Iterable, Sequence

from controller.records import AttemptRecord, Change, JobRecord
from controller.scheduling.index import ClusterIndex, apply
from controller.scheduling.types import GangRequest
from controller.simulation.future import Future
from controller.simulation.spans import Expected, History
from controller.simulation.types import FIRMNESS, Basis, Eta, Forecast

FIRST = 1_000
"""Jobs in the order of service that are planned one by one."""
STEPS = 200
"""Moments that are planned, at most."""
GRAIN = 0.02
"""Of the time ahead: ends that lie closer together are one moment."""
COARSER = 20
"""Moments after which the grain has doubled."""
SOON = 1.0
"""Seconds within which everything is one moment."""


def forecast(
    index: ClusterIndex,
    now: float,
    history: History,
    *,
    first: int = FIRST,
    steps: int = STEPS,
    grain: float = GRAIN,
) -> Forecast:
    """The starts of all that wants to start, in the order of service. `now` in UTC seconds."""
    waiting = index.requests()
    ahead, rest = waiting[:first], waiting[first:]
    run = _Run(_only(index, ahead) if rest else index, now, history)
    run.forward({request.job_uid for request in ahead}, steps, grain)
    etas = [run.eta(request) for request in ahead]
    etas += _bounds(index, run, rest, max((eta.at or now for eta in etas), default=now))
    return Forecast(revision=index.revision, now=now, etas=tuple(etas), plans=run.future.plans)


def expected_end(history: History, job: JobRecord, attempt: AttemptRecord, now: float) -> tuple[float, Basis] | None:
    """When a running attempt ends, never before now."""
    since = attempt.running_at or attempt.placed_at
    found = history.expected(job, max(0.0, now - since))
    return None if found is None else (max(since + found.seconds, now), found.basis)


class _Run:
    """One look ahead, and what each moment of it rests on."""

    def __init__(self, index: ClusterIndex, now: float, history: History) -> None:
        self._now, self._history = now, history
        self._started: dict[str, tuple[float, Basis]] = {}
        self.endless: set[str] = set()  # names of jobs that run, or will, without an end that anybody knows
        self._firm: dict[str, Basis] = {}
        ends: dict[str, float] = {}
        for attempt in index.attempts.values():
            job = index.jobs.get(attempt.job_uid)
            found = expected_end(history, job, attempt, now) if job else None
            if found is not None:
                ends[attempt.uid], self._firm[attempt.job_uid] = found
            elif job is not None:
                self.endless.add(job.name)
        self.future = Future(index, now, self._span, ends)
        self._basis = Basis.NOW

    def _span(self, job: JobRecord) -> float | None:
        found: Expected | None = self._history.expected(job)
        if found is None:
            self.endless.add(job.name)
            return None
        self._firm[job.uid] = found.basis
        return found.seconds

    def forward(self, wanted: set[str], steps: int, grain: float) -> None:
        """Until all that are wanted have started, nothing ends any more, or the moments are used up. Each moment takes so
        many ends that the moments last for all that runs now."""
        left = wanted - self._settle()
        few = -(-self.future.ends // max(steps, 1))
        for step in range(steps):
            at = self.future.next_at
            if not left or at is None:
                return
            share = grain * (1 + step / COARSER)
            at = max(at + (at - self._now) * share, self._now + SOON, self.future.after(few) or at)
            for uid in self.future.until(at):
                self._basis = max(self._basis, self._firm.get(uid, Basis.NONE), key=FIRMNESS.__getitem__)
            left -= self._settle()

    def _settle(self) -> set[str]:
        fresh = {}
        for one in self.future.settle():
            if one.job_uid not in self._started:
                fresh[one.job_uid] = (one.at, self._basis)
        self._started |= fresh
        return set(fresh)

    def eta(self, request: GangRequest) -> Eta:
        found = self._started.get(request.job_uid)
        if found is not None:
            return Eta(job_uid=request.job_uid, at=found[0], basis=found[1])
        if self.future.next_end is not None:  # the moments were used up
            return Eta(job_uid=request.job_uid, at=self.future.now, basis=Basis.BOUND)
        return Eta(job_uid=request.job_uid, at=None, basis=Basis.NONE, note=self._note())

    def _note(self) -> str:
        if not self.endless:
            return "it would not start even when all that runs has ended"
        names = sorted(self.endless)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        verb = "has" if len(names) == 1 else "have"
        return f"{', '.join(names[:3])}{more} {verb} neither a time limit nor a history"


def _only(index: ClusterIndex, ahead: Sequence[GangRequest]) -> ClusterIndex:
    """The index without the jobs that wait behind these."""
    kept = {request.job_uid for request in ahead}
    behind = (request.job_uid for request in index.requests() if request.job_uid not in kept)
    return apply(index, [Change(revision=index.revision, kind="Job", uid=uid, op="delete") for uid in behind])


def _bounds(index: ClusterIndex, run: _Run, rest: Iterable[GangRequest], after: float) -> Iterable[Eta]:
    """Served in its turn, a job does not start before those before it have, nor before the devices that they take have
    had the time to do their work."""
    work = 0.0
    there = max(1, sum(len(node.devices) for node in index.nodes.values()))
    for request in rest:
        yield Eta(job_uid=request.job_uid, at=after + work / there, basis=Basis.BOUND)
        found = run._history.expected(index.jobs[request.job_uid])
        device, workers = request.options[0] if request.options else (None, len(request.roles))
        work += (found.seconds if found else 0.0) * workers * (device.count if device else 0)
