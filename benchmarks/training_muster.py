"""The production disciplines on the Pollux set-up. They see names, requests, attained service and ends; no lengths."""

from bisect import insort
from collections.abc import Mapping

from benchmarks.training import GPUS, NODES, Allocation, Job
from benchmarks.training_policies import admit, best_fit, packed, settle
from controller.scheduling.discipline.elastic import Claim, divide
from controller.scheduling.discipline.remaining import Served, Work, by_attained, by_remaining, worth_moving

DIVIDE_EVERY = 300  # seconds after which an elastic pool is divided anew though nothing came or went


class Learned:
    """Time-sharing of rigid jobs. Without `named` the programs have no names to learn from."""

    def __init__(self, named: bool = True) -> None:
        self.named = named
        self.sizes: dict[str, list[float]] = {}
        self.live: dict[str, Job] = {}

    def __call__(self, jobs: list[Job], now: int) -> Mapping[str, Allocation]:
        self._learn(jobs)
        served = self._order([work_of(job, job.attained, self.named) for job in jobs])
        admitted = admit([self.live[entry.job] for entry in served])
        allocations = settle(admitted, best_fit)
        left = {entry.job: entry.remaining for entry in served}
        if self.named:
            gather(
                [job for job in admitted if worth_moving(job.replicas, left[job.name], now - job.changed)], allocations
            )
        return allocations

    def _order(self, works: list[Work]) -> list[Served]:
        return by_remaining(works, self.sizes) if self.named else by_attained(works)

    def _learn(self, jobs: list[Job]) -> None:
        """Jobs that were live and are not any more have completed: what they attained is their size."""
        now = {job.name: job for job in jobs}
        for name, job in self.live.items():
            if name not in now:
                insort(self.sizes.setdefault(job.application.name, []), self._size(job))
        self.live = now

    def _size(self, job: Job) -> float:
        return job.attained


def work_of(job: Job, attained: float, named: bool) -> Work:
    return Work(
        job=job.name,
        program=job.application.name if named else "",
        devices=job.replicas,
        attained=attained,
        running=bool(job.allocation),
        submitted=float(job.submitted),
    )


def gather(candidates: list[Job], allocations: dict[str, Allocation]) -> None:
    """Move spread jobs onto fewer nodes where there is room now."""
    free = [GPUS] * NODES
    for allocation in allocations.values():
        for node in allocation:
            free[node] -= 1
    for job in candidates:
        held = allocations[job.name]
        for node in held:
            free[node] += 1
        wanted = best_fit(free, len(held)) if held == job.allocation else held
        if len(set(wanted)) < len(set(held)):
            allocations[job.name] = wanted
        for node in allocations[job.name]:
            free[node] -= 1


class Elastic(Learned):
    """Jobs of 1 to twice the requested GPUs at a fixed global batch; throughput profiles are given."""

    def __init__(self) -> None:
        super().__init__()
        self.worked: dict[str, float] = {}  # GPU-seconds as if on the requested GPUs
        self.seen: dict[str, float] = {}
        self.divided = 0
        self.speeds: dict[tuple[str, int, int], tuple[float, ...]] = {}

    def __call__(self, jobs: list[Job], now: int) -> Mapping[str, Allocation]:
        known = set(self.live)
        self._count(jobs)
        self._learn(jobs)
        if known == set(self.live) and now - self.divided < DIVIDE_EVERY:
            return {job.name: job.allocation for job in jobs if job.allocation}
        self.divided = now
        served = by_remaining([work_of(job, self.worked[job.name], True) for job in jobs], self.sizes)
        claims = [self._claim(self.live[entry.job], entry.remaining) for entry in served]
        sizes = divide(claims, NODES * GPUS)
        return self._place(jobs, sizes, {entry.job: entry.remaining for entry in served}, now)

    def _size(self, job: Job) -> float:
        return self.worked[job.name]

    def _count(self, jobs: list[Job]) -> None:
        """What each job has worked since the last look, those that have just completed included."""
        for job in {**self.live, **{job.name: job for job in jobs}}.values():
            spent = job.attained - self.seen.get(job.name, 0.0)
            self.seen[job.name] = job.attained
            gpus = len(job.allocation)
            rate = job.replicas * self._speed(job)[gpus] / gpus if gpus else 0.0
            self.worked[job.name] = self.worked.get(job.name, 0.0) + spent * rate

    def _claim(self, job: Job, left: float) -> Claim:
        return Claim(
            job=job.name, requested=job.replicas, remaining=left, current=len(job.allocation), speed=self._speed(job)
        )

    def _speed(self, job: Job) -> tuple[float, ...]:
        """The profile of a program at its batch, relative to the requested GPUs."""
        key = (job.application.name, job.batch, job.replicas)
        if key not in self.speeds:
            rates = [
                job.application.throughput(packed(gpus), job.batch) or 0.0 for gpus in range(1, 2 * job.replicas + 1)
            ]
            self.speeds[key] = (0.0, *(rate / rates[job.replicas - 1] for rate in rates[: NODES * GPUS]))
        return self.speeds[key]

    def _place(
        self, jobs: list[Job], sizes: Mapping[str, int], left: Mapping[str, float], now: int
    ) -> dict[str, Allocation]:
        """Sizes that rest keep their GPUs; the others are placed anew, the largest first."""
        allocations = {
            job.name: job.allocation for job in jobs if job.allocation and len(job.allocation) == sizes[job.name]
        }
        free = [GPUS] * NODES
        for allocation in allocations.values():
            for node in allocation:
                free[node] -= 1
        for job in sorted(jobs, key=lambda job: (-sizes[job.name], job.name)):
            if sizes[job.name] and job.name not in allocations:
                allocations[job.name] = best_fit(free, sizes[job.name])
                for node in allocations[job.name]:
                    free[node] -= 1
        resting = [job for job in jobs if job.allocation and allocations.get(job.name) == job.allocation]
        gather(
            [job for job in resting if worth_moving(sizes[job.name], left[job.name], now - job.changed)], allocations
        )
        return allocations
