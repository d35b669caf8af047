"""The Pollux set-up: 16 nodes of 4 GPUs; all jobs advance 60 s, then the policy allocates anew; a change costs 30 s."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.applications import Application, Placement
from benchmarks.common import BadInput, number, table_of

NODES, GPUS, INTERVAL, STALL = 16, 4, 60, 30
Allocation = tuple[int, ...]  # the node of each GPU, equal nodes side by side


@dataclass
class Job:
    """One job and how far it is. `attained` counts GPU-seconds, stalls included."""

    name: str
    application: Application
    submitted: int
    replicas: int
    batch: int
    allocation: Allocation = ()
    placement: Placement = ()
    local: int = 0
    steps: int = 0
    stall: float = 0.0
    clock: int = 0
    epoch: int = 0
    progress: float = 0.0
    attained: float = 0.0
    finished: int | None = None
    starts: int = 0
    changed: int = 0

    def advance(self, seconds: float) -> None:
        """Train for this long."""
        if not self.placement:
            return
        gpus = sum(self.placement)
        delay = min(self.stall, seconds)
        self.stall -= delay
        self._spend(gpus, delay)
        now, seconds = self.clock + delay, seconds - delay
        while seconds > 0 and self.finished is None:
            speed = self.application.goodput(self.placement, self.local, self.steps, self.epoch)
            border = float(self.application.progress[self.epoch])
            if self.progress + speed * seconds < border:
                self.progress += speed * seconds
                self._spend(gpus, seconds)
                return
            lasted = round((border - self.progress) / speed)
            self.epoch, self.progress = self.epoch + 1, border
            self._spend(gpus, lasted)
            now, seconds = now + lasted, seconds - lasted
            if self.epoch >= self.application.epochs:
                self.finished = int(now)

    def allocate(self, allocation: Allocation, now: int) -> None:
        self.allocation, self.changed = allocation, now
        self.placement = tuple(allocation.count(node) for node in dict.fromkeys(allocation))
        if allocation:
            self.local, self.steps = self.application.split(self.batch, len(allocation))
            self.stall = STALL
            self.starts += 1

    def _spend(self, gpus: int, seconds: float) -> None:
        self.attained += gpus * seconds


Policy = Callable[[list[Job], int], Mapping[str, Allocation]]
"""The live jobs in the order of the file, and the time; the allocation of each that shall run."""


@dataclass(frozen=True)
class Outcome:
    durations: tuple[int, ...]
    makespan: int
    restarts: float


def read(path: Path, applications: Mapping[str, Application]) -> list[Job]:
    rows = table_of(path, ("name", "time", "application", "num_replicas", "batch_size"))
    jobs = []
    for line, row in enumerate(rows, 2):
        if row["application"] not in applications:
            raise BadInput(f"{path}:{line}: application {row['application']!r} has no profile")
        submitted, replicas, batch = (
            int(number(path, line, row, column, least))
            for column, least in (("time", 0), ("num_replicas", 1), ("batch_size", 1))
        )
        if replicas > NODES * GPUS:
            raise BadInput(f"{path}:{line}: {replicas} replicas are more than the {NODES * GPUS} GPUs of the cluster")
        jobs.append(Job(row["name"], applications[row["application"]], submitted, replicas, batch))
    if not jobs:
        raise BadInput(f"{path}: no job in it")
    if len({job.name for job in jobs}) < len(jobs):
        raise BadInput(f"{path}: two jobs have the same name")
    return jobs


def simulate(jobs: list[Job], policy: Policy) -> Outcome:
    now = 0
    while any(job.finished is None for job in jobs):
        if now > 400 * 86400:
            raise BadInput("the workload does not come to its end within 400 days")
        for job in jobs:
            job.advance(INTERVAL)
            job.clock += INTERVAL
        now += INTERVAL
        live = [job for job in jobs if job.submitted <= now and job.finished is None]
        allocations = policy(live, now) if live else {}
        _check(allocations)
        for job in jobs:
            wanted = tuple(allocations.get(job.name, ()))
            if wanted != job.allocation:
                job.allocate(wanted, now)
    return Outcome(
        tuple(job.finished - job.submitted for job in jobs if job.finished is not None),
        max(job.finished or 0 for job in jobs),
        sum(job.starts - 1 for job in jobs) / len(jobs),
    )


def _check(allocations: Mapping[str, Allocation]) -> None:
    used = [0] * NODES
    for allocation in allocations.values():
        for node in allocation:
            used[node] += 1
    if max(used) > GPUS:
        raise AssertionError("a policy gave a GPU away twice")
