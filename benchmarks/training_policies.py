"""The reference policies of the Pollux set-up: Tiresias, FIFO, and two oracles that know each job's length."""

from collections.abc import Callable, Mapping

from benchmarks.applications import Placement
from benchmarks.training import GPUS, NODES, Allocation, Job

DEMOTED = 16 * 3600  # GPU-seconds after which Tiresias serves a job from its second queue


class Tiresias:
    """Two queues by attained GPU-time, first come first served in each, the second only with what is left."""

    def __init__(self) -> None:
        self.queues: tuple[list[str], list[str]] = ([], [])
        self.running: set[str] = set()
        self.served: dict[str, int] = {}
        self.looked = 0

    def __call__(self, jobs: list[Job], now: int) -> Mapping[str, Allocation]:
        live = {job.name: job for job in jobs}
        for queue in self.queues:
            queue[:] = [name for name in queue if name in live]
        for name, job in live.items():
            if name not in self.served:
                self.served[name] = 0
                self.queues[0].append(name)
            elif name in self.running:
                self.served[name] += now - self.looked
                if name in self.queues[0] and self.served[name] * job.replicas >= DEMOTED:
                    self.queues[0].remove(name)
                    self.queues[1].append(name)
        self.looked = now
        order = [live[name] for queue in self.queues for name in queue]
        admitted = admit(order)
        self.running = {job.name for job in admitted}
        return settle(admitted, emptiest)


def admit(order: list[Job]) -> list[Job]:
    """Those that fit, in order; one that does not fit is passed over."""
    free, admitted = NODES * GPUS, []
    for job in order:
        if job.replicas <= free:
            admitted.append(job)
            free -= job.replicas
    return admitted


def settle(admitted: list[Job], pick: Callable[[list[int], int], Allocation]) -> dict[str, Allocation]:
    """Jobs that run keep their GPUs; the others get theirs in order."""
    allocations = {job.name: job.allocation for job in admitted if job.allocation}
    free = [GPUS] * NODES
    for allocation in allocations.values():
        for node in allocation:
            free[node] -= 1
    for job in admitted:
        if job.name not in allocations:
            allocations[job.name] = pick(free, job.replicas)
            for node in allocations[job.name]:
                free[node] -= 1
    return allocations


def emptiest(free: list[int], gpus: int) -> Allocation:
    """Always from the node with the most free GPUs."""
    left, taken = list(free), []
    while len(taken) < gpus:
        node = max(range(NODES), key=lambda node: left[node])
        count = min(left[node], gpus - len(taken))
        taken += [node] * count
        left[node] -= count
    return tuple(taken)


def best_fit(free: list[int], gpus: int) -> Allocation:
    """The tightest node that holds all of it; else the emptiest node first."""
    holding = [node for node in range(NODES) if free[node] >= gpus]
    if holding:
        return (min(holding, key=lambda node: (free[node], node)),) * gpus
    first = max(range(NODES), key=lambda node: free[node])
    left = list(free)
    left[first] = 0
    return (first,) * free[first] + best_fit(left, gpus - free[first])


def fifo(jobs: list[Job], now: int) -> Mapping[str, Allocation]:
    """First come, first served: the first that does not fit holds back all after it."""
    admitted, free = [], NODES * GPUS
    for job in sorted(jobs, key=lambda job: (not job.allocation, job.submitted)):
        if not job.allocation and job.replicas > free:
            break
        admitted.append(job)
        free -= job.replicas
    return settle(admitted, best_fit)


def shortest(size: Callable[[Job], float], preempt: bool) -> Callable[[list[Job], int], Mapping[str, Allocation]]:
    """An oracle: the job with the least `size` first; running jobs stay unless `preempt`."""

    def policy(jobs: list[Job], now: int) -> Mapping[str, Allocation]:
        order = sorted(jobs, key=lambda job: (bool(not preempt and not job.allocation), size(job), job.submitted))
        return settle(admit(order), best_fit)

    return policy


def remaining_time(job: Job) -> float:
    """What is left of a job on its packed placement, in seconds: nobody can know this."""
    placement, application = packed(job.replicas), job.application
    local, steps = application.split(job.batch, job.replicas)
    left, progress = 0.0, job.progress
    for epoch in range(job.epoch, application.epochs):
        left += (float(application.progress[epoch]) - progress) / application.goodput(placement, local, steps, epoch)
        progress = float(application.progress[epoch])
    return left


def packed(gpus: int) -> Placement:
    """The placement of so many GPUs on as few nodes as possible."""
    full, rest = divmod(gpus, GPUS)
    return (*[GPUS] * full, *[rest] * (rest > 0))
