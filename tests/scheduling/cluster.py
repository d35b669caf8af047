"""A cluster on paper that drives the real index and planner: commit what is planned, let workers end, lose nodes.

Every step goes through the change log's shape, and after every step the index must equal a cold build and hold
no more than there is.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from msgspec.structs import replace

from controller.records import Change, JobRecord, NodeRecord, QueueRecord, Record, WorkerRecord
from controller.scheduling.index import ClusterIndex, apply, build
from controller.scheduling.planner import plan
from controller.scheduling.types import Plan, Start, Wait
from muster.states import AttemptPhase, JobPhase, NodePhase, WorkerPhase
from tests.makers import NOW, make_attempt, make_job, make_node, make_worker

LEVELS = ("block", "rack")
BIG_CPU, BIG_MEMORY = 1_000_000, 2**40


def racks(layout: Mapping[str, Mapping[str, int]], kind: str = "h100", **changes: Any) -> list[NodeRecord]:
    """Nodes from {"block/rack": {node: devices}}; a missing part of the path leaves that label out."""
    nodes = []
    for path, members in layout.items():
        block, _, rack = path.partition("/")
        labels = {f"muster.dev/{level}": name for level, name in (("block", block), ("rack", rack)) if name}
        nodes += [
            make_node(name, devices, kind, labels=labels, cpu_milli=BIG_CPU, memory=BIG_MEMORY, **changes)
            for name, devices in members.items()
        ]
    return nodes


def gang(
    name: str,
    pods: int = 1,
    per_pod: int = 1,
    *,
    required: str | None = None,
    wanted: str | None = None,
    max_per_node: int = 1000,
    kind: str = "h100",
    spec: Mapping[str, Any] | None = None,
    **changes: Any,
) -> JobRecord:
    topology = {level: value for level, value in (("required", required), ("preferred", wanted)) if value}
    fields = {
        "workers": pods,
        "maxPerNode": max_per_node,
        "accelerators": [{"type": kind, "count": per_pod}] if per_pod else [],
        "topology": topology,
        **(spec or {}),
    }
    return make_job(name, spec=fields, **changes)


class Cluster:
    def __init__(self, nodes: Iterable[NodeRecord], *records: Record, levels: tuple[str, ...] = LEVELS) -> None:
        self.index: ClusterIndex = build([*nodes, *records], levels=levels)
        self._revision = count(1)
        self._submitted = count()
        self.check()

    def put(self, *records: Record) -> None:
        changes = [
            Change(revision=number, kind=kind_of(record), uid=record.uid, record=replace(record, revision=number))
            for record in records
            for number in [next(self._revision)]
        ]
        self.index = apply(self.index, changes)
        self.check()

    def delete(self, record: Record) -> None:
        self.index = apply(
            self.index, [Change(revision=next(self._revision), kind=kind_of(record), uid=record.uid, op="delete")]
        )
        self.check()

    def submit(self, *jobs: JobRecord) -> None:
        """One after the other: each a second younger than the one before."""
        self.put(*(replace(job, queued_at=NOW + next(self._submitted)) for job in jobs))

    def settle(self) -> Plan:
        """Plan and commit until nothing starts any more; the last plan."""
        for _ in range(100):
            decided = plan(self.index, NOW)
            if not decided.groups:
                return decided
            for group in decided.groups:
                self.commit(group.start)
        raise AssertionError("the plan does not settle")

    def commit(self, start: Start) -> None:
        job = self.index.jobs[start.job_uid]
        attempt = make_attempt(job, job.epoch + 1)
        request = self.index.gangs[job.uid]
        workers = [
            make_worker(
                attempt,
                index,
                placed.node,
                devices=placed.devices,
                cpu_milli=request.cpu_milli,
                memory=request.memory,
            )
            for index, placed in enumerate(start.workers)
        ]
        self.put(attempt, *workers, replace(job, phase=JobPhase.STARTING, epoch=job.epoch + 1))

    def workers(self, job: str) -> list[WorkerRecord]:
        living = (worker for workers in self.index.workers.values() for worker in workers.values())
        return sorted((w for w in living if w.job_uid == f"job-{job}"), key=lambda worker: worker.index)

    def end(self, job: str, phase: JobPhase = JobPhase.SUCCEEDED, **changes: Any) -> None:
        """All its workers are confirmed dead, its attempt ends, and the job goes on as told."""
        record = self.index.jobs[f"job-{job}"]
        self.put(*(replace(worker, phase=WorkerPhase.EXITED, released=True) for worker in self.workers(job)))
        ended = [a for a in self.index.attempts.values() if a.job_uid == record.uid]
        self.put(*(replace(attempt, phase=AttemptPhase.ENDED) for attempt in ended))
        self.put(replace(record, phase=phase, **changes))

    def node(self, name: str, **changes: Any) -> None:
        self.put(replace(self.index.nodes[name], **changes))

    def lose(self, name: str) -> None:
        self.node(name, phase=NodePhase.LOST)

    def placed(self) -> dict[str, dict[str, int]]:
        """Workers on each node, by job."""
        found: dict[str, Counter[str]] = {}
        for node, workers in self.index.workers.items():
            for worker in workers.values():
                found.setdefault(worker.job_uid.removeprefix("job-"), Counter())[node] += 1
        return {job: dict(sorted(nodes.items())) for job, nodes in found.items()}

    def racks_of(self, job: str) -> set[str]:
        nodes = {worker.node for worker in self.workers(job)}
        return {path_of(self.index.nodes[name]) for name in nodes}

    def check(self) -> None:
        self.index.check()
        for node, workers in self.index.workers.items():
            record = self.index.nodes.get(node)
            if record is not None:
                assert sum(worker.cpu_milli for worker in workers.values()) <= record.cpu_milli
                assert sum(worker.memory for worker in workers.values()) <= record.memory


def kind_of(record: Record) -> str:
    return type(record).__name__.removesuffix("Record")


def path_of(node: NodeRecord) -> str:
    return "/".join(node.labels.get(f"muster.dev/{level}", "-") for level in LEVELS)


def pending(plan: Plan) -> dict[str, str]:
    return {wait.job_uid.removeprefix("job-"): str(wait.code) for wait in plan.waits}


def wait_of(plan: Plan, job: str) -> Wait:
    return next(wait for wait in plan.waits if wait.job_uid == f"job-{job}")


def queue(name: str, **spec: Any) -> QueueRecord:
    return QueueRecord(name=name, uid=f"queue-{name}", spec=spec)
