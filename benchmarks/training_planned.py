"""The production planner on the Pollux set-up: its queue shares its devices in time. It sees names, requests, attained service
and ends; no lengths."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.training import GPUS, NODES, Allocation, Job
from benchmarks.training_policies import packed
from controller.records import JobRecord, NodeRecord, QueueRecord
from controller.scheduling.discipline.programs import LABEL
from controller.simulation.world import Habits, World
from muster.protocol import Device

KIND = "t4"
_FOREVER = Habits()


class Planned:
    """One queue of the cluster under its planner. Without `named` the programs have no names to learn from; `elastic` jobs have
    1 to twice the GPUs that they ask for at a fixed global batch, with given throughput profiles."""

    def __init__(self, named: bool = True, elastic: bool = False) -> None:
        self.named, self.elastic = named, elastic
        devices = tuple(Device(index=index, type=KIND, virtual=True) for index in range(GPUS))
        nodes = [
            NodeRecord(name=f"n{node:02}", uid=f"node-{node:02}", devices=devices, cpu_milli=10**6, memory=2**40)
            for node in range(NODES)
        ]
        queue = QueueRecord(name="default", uid="queue", spec={"discipline": "timeSharing"})
        self.world = World([*nodes, queue], ())
        self.live: dict[str, Job] = {}

    def __call__(self, jobs: list[Job], now: int) -> Mapping[str, Allocation]:
        self.world.pass_time(float(now))
        live = {job.name: job for job in jobs}
        for name in self.live.keys() - live.keys():
            self.world.finish(name)
        for name in live.keys() - self.live.keys():
            self.world.submit(self.record(live[name]), _FOREVER)
        self.live = live
        self.world.settle()
        return dict(self._allocations())

    def record(self, job: Job) -> JobRecord:
        spec: dict[str, Any] = {
            "workers": job.replicas,
            "maxPerNode": GPUS,
            "accelerators": [{"type": KIND, "count": 1}],
            "cpu": "1m",
            "memory": "1Mi",
            "checkpoint": {"directory": f"/{job.name}"},
        }
        if self.elastic:
            spec |= {"minWorkers": 1, "maxWorkers": min(2 * job.replicas, NODES * GPUS), "throughput": profile(job)}
        labels = {LABEL: job.application.name} if self.named else {}
        return JobRecord(uid=job.name, namespace="default", name=job.name, spec=spec, labels=labels)

    def _allocations(self) -> Iterator[tuple[str, Allocation]]:
        found: dict[str, Counter[int]] = {}
        for node, workers in self.world.index.workers.items():
            for worker in workers.values():
                found.setdefault(worker.job_uid, Counter())[int(node[1:])] += 1
        for uid, nodes in found.items():
            yield uid, tuple(node for node, count in sorted(nodes.items()) for _ in range(count))


def profile(job: Job) -> dict[str, float]:
    """Throughput at the job's batch by GPUs."""
    sizes = range(1, 2 * job.replicas + 1)
    return {str(gpus): job.application.throughput(packed(gpus), job.batch) or 0.0 for gpus in sizes}
