"""The planner's picture of the cluster.

    index = build(records)            cold, from everything that lives
    index = apply(index, changes)     incremental; equals the cold one

It holds what is committed though not yet seen: a worker occupies its devices, CPU and memory from the commit of
its placement until it is confirmed ended.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

from controller.records import (
    AttemptRecord,
    Change,
    CheckpointRecord,
    JobRecord,
    NodeRecord,
    QueueRecord,
    Record,
    WorkerRecord,
)
from controller.scheduling.columns import Columns, carried, count_free, count_total, empty_columns, free_devices
from controller.scheduling.fabric import DEFAULT_LEVELS, NODE, Fabric, path_of, weave
from controller.scheduling.requests import request_of, turn, wants_to_start
from controller.scheduling.types import GangRequest
from muster.problems import FieldError, nearest
from muster.protocol import Device
from muster.states import JOB_TERMINAL, WORKER_TERMINAL, AttemptPhase

Known = TypeVar("Known", JobRecord, QueueRecord, NodeRecord, WorkerRecord, AttemptRecord)


class ClusterIndex(Struct, frozen=True, kw_only=True):
    """Nodes and queues by name, live jobs and attempts by uid, live workers by node and uid. `asks` are the
    requests of all live jobs, `gangs` those of the jobs that want to start. `carded` are the kinds of devices that
    some node gives out by whole cards. `free` is what is free now, `total` what would be if nothing ran."""

    revision: int
    level_names: tuple[str, ...]
    fabric: Fabric
    nodes: Mapping[str, NodeRecord]
    queues: Mapping[str, QueueRecord]
    jobs: Mapping[str, JobRecord]
    asks: Mapping[str, GangRequest]
    gangs: Mapping[str, GangRequest]
    attempts: Mapping[str, AttemptRecord]
    homes: Mapping[str, str]
    """The node of each live worker."""
    workers: Mapping[str, Mapping[str, WorkerRecord]]
    free: Columns
    total: Columns
    carded: frozenset[str] = frozenset()
    saved: Mapping[str, CheckpointRecord] = {}
    """The newest complete checkpoint of each live job, by job uid."""

    def requests(self) -> list[GangRequest]:
        """The gangs that wait for a placement, in the order in which they are served. A job of which anything
        still lives is not among them."""
        busy = {attempt.job_uid for attempt in self.attempts.values()}
        busy |= {worker.job_uid for workers in self.workers.values() for worker in workers.values()}
        return sorted((gang for uid, gang in self.gangs.items() if uid not in busy), key=turn)

    def free_devices(self, node: str) -> list[Device]:
        """Healthy devices of a node that nobody holds."""
        return free_devices(self.nodes[node], self.workers.get(node, {}))

    def check(self) -> None:
        """Raises AssertionError where the index contradicts itself or a cold build of the same records."""
        for node, workers in self.workers.items():
            held = Counter(device for worker in workers.values() for device in worker.devices)
            assert all(count == 1 for count in held.values()), f"{node}: a device is held twice: {held}"
        living = [worker for workers in self.workers.values() for worker in workers.values()]
        records: list[Record] = [
            *self.nodes.values(),
            *self.queues.values(),
            *self.jobs.values(),
            *self.attempts.values(),
            *living,
            *self.saved.values(),
        ]
        cold = build(records, revision=self.revision, levels=self.level_names)
        for table in ("nodes", "queues", "jobs", "asks", "gangs", "attempts", "homes", "workers", "carded", "saved"):
            assert getattr(cold, table) == getattr(self, table), f"{table} differ from a cold build"
        assert cold.fabric.nodes == self.fabric.nodes, "the fabric differs from a cold build"
        assert cold.free.same(self.free), "what is free differs from a cold build"
        assert cold.total.same(self.total), "what there is differs from a cold build"


def build(records: Iterable[Record], *, revision: int = 0, levels: tuple[str, ...] = DEFAULT_LEVELS) -> ClusterIndex:
    """The index of all live records, in any order. `levels` are the fabric's, outermost first."""
    empty = ClusterIndex(
        revision=revision,
        level_names=levels,
        fabric=weave({}, levels),
        nodes={},
        queues={},
        jobs={},
        asks={},
        gangs={},
        attempts={},
        homes={},
        workers={},
        free=empty_columns(0),
        total=empty_columns(0),
    )
    draft = _Draft(empty)
    for record in records:
        draft.put(record)
    return draft.finish()


def apply(index: ClusterIndex, changes: Iterable[Change]) -> ClusterIndex:
    """The index after `changes`, oldest first. Repeats and records older than what is known do no harm."""
    draft = _Draft(index)
    for change in changes:
        draft.revision = max(draft.revision, change.revision)
        if change.op == "put" and change.record is not None:
            draft.put(change.record)
        else:
            draft.delete(change.kind, change.uid)
    return draft.finish()


def levels(index: ClusterIndex) -> tuple[str, ...]:
    """The names that a topology constraint may use, outermost first."""
    return (*index.level_names, NODE)


def unknown_level(index: ClusterIndex, level: str | None, field: str) -> FieldError | None:
    """The error to refuse a manifest with whose `field` names a level that the fabric does not have."""
    known = levels(index)
    if level is None or level in known:
        return None
    return FieldError(field, "unknown level of the fabric", "INVALID_TOPOLOGY", level, known, nearest(level, known))


class _Draft:
    """One application of changes: copies of the tables, and which nodes have to be counted anew."""

    def __init__(self, index: ClusterIndex) -> None:
        self.before = index
        self.revision = index.revision
        self.nodes, self.queues = dict(index.nodes), dict(index.queues)
        self.jobs, self.attempts = dict(index.jobs), dict(index.attempts)
        self.asks, self.gangs = dict(index.asks), dict(index.gangs)
        self.homes, self.workers = dict(index.homes), dict(index.workers)
        self.saved = dict(index.saved)
        self.moved = False  # nodes have come, gone or changed their place in the fabric
        self.changed: set[str] = set()  # nodes whose own record changed
        self.stirred: set[str] = set()  # nodes whose workers changed

    def put(self, record: Record) -> None:
        match record:
            case JobRecord():
                self._job(record)
            case AttemptRecord():
                _keep(self.attempts, record.uid, record, live=record.phase is not AttemptPhase.ENDED)
            case WorkerRecord():
                self._worker(record)
            case NodeRecord():
                self._node(record)
            case QueueRecord():
                _keep(self.queues, record.name, record)
            case CheckpointRecord():
                self._checkpoint(record)
            case _:
                pass  # incidents and events place nothing

    def delete(self, kind: str, uid: str) -> None:
        match kind:
            case "Job":
                self.jobs.pop(uid, None)
                self.asks.pop(uid, None)
                self.gangs.pop(uid, None)
                self.saved.pop(uid, None)
            case "Attempt":
                self.attempts.pop(uid, None)
            case "Worker":
                self._vacate(uid)
            case "Node":
                self.moved |= _drop(self.nodes, uid)
            case "Queue":
                _drop(self.queues, uid)

    def _job(self, job: JobRecord) -> None:
        if not _keep(self.jobs, job.uid, job, live=job.phase not in JOB_TERMINAL):
            return
        if job.phase in JOB_TERMINAL:
            self.asks.pop(job.uid, None)
            self.saved.pop(job.uid, None)
        else:
            self.asks[job.uid] = request_of(job)
        if wants_to_start(job):
            self.gangs[job.uid] = self.asks[job.uid]
        else:
            self.gangs.pop(job.uid, None)

    def _checkpoint(self, record: CheckpointRecord) -> None:
        """What was saved once stays a save, though it may have been pruned for a newer one."""
        known = self.saved.get(record.job_uid)
        newer = known is None or (record.created_at, record.uid) > (known.created_at, known.uid)
        if record.complete and newer:
            self.saved[record.job_uid] = record

    def _worker(self, worker: WorkerRecord) -> None:
        home = self.homes.get(worker.uid)
        known = self.workers[home][worker.uid] if home is not None else None
        if known is not None and worker.revision < known.revision:
            return
        self._vacate(worker.uid)
        if worker.phase not in WORKER_TERMINAL:
            self.homes[worker.uid] = worker.node
            self.workers[worker.node] = {**self.workers.get(worker.node, {}), worker.uid: worker}
            self.stirred.add(worker.node)

    def _vacate(self, uid: str) -> None:
        home = self.homes.pop(uid, None)
        if home is None:
            return
        self.workers[home] = {other: worker for other, worker in self.workers[home].items() if other != uid}
        if not self.workers[home]:
            del self.workers[home]
        self.stirred.add(home)

    def _node(self, node: NodeRecord) -> None:
        known = self.nodes.get(node.name)
        if _keep(self.nodes, node.name, node):
            names = self.before.level_names
            self.moved |= known is None or path_of(known.labels, names) != path_of(node.labels, names)
            self.changed.add(node.name)

    def finish(self) -> ClusterIndex:
        fabric, free, total = self.before.fabric, self.before.free, self.before.total
        if self.moved:
            names = self.before.level_names
            fabric = weave({name: path_of(node.labels, names) for name, node in self.nodes.items()}, names)
            free, total = carried(free, self.before.fabric, fabric), carried(total, self.before.fabric, fabric)
        if changed := sorted(self.changed & self.nodes.keys()):
            total = count_total(total, fabric, (self.nodes[name] for name in changed))
        if stirred := sorted((self.changed | self.stirred) & self.nodes.keys()):
            rows = ((self.nodes[name], self.workers.get(name, {})) for name in stirred)
            free = count_free(free, fabric, rows)
        return ClusterIndex(
            revision=self.revision,
            level_names=self.before.level_names,
            fabric=fabric,
            nodes=self.nodes,
            queues=self.queues,
            jobs=self.jobs,
            asks=self.asks,
            gangs=self.gangs,
            attempts=self.attempts,
            homes=self.homes,
            workers=self.workers,
            free=free,
            total=total,
            carded=self._carded(),
            saved={uid: record for uid, record in self.saved.items() if uid in self.jobs},
        )

    def _carded(self) -> frozenset[str]:
        if not self.changed and len(self.nodes) == len(self.before.nodes):
            return self.before.carded
        return frozenset(d.type for node in self.nodes.values() for d in node.devices if d.card is not None)


def _keep(table: dict[str, Known], key: str, record: Known, live: bool = True) -> bool:
    """Put a record, or drop it where it no longer lives. False when something newer of it is known already."""
    known = table.get(key)
    if known is not None and known.uid == record.uid and record.revision < known.revision:
        return False
    if live:
        table[key] = record
    else:
        table.pop(key, None)
    return True


def _drop(table: dict[str, NodeRecord] | dict[str, QueueRecord], uid: str) -> bool:
    """Remove by uid from a table by name. Its name may be another's by now: that one stays."""
    name = next((name for name, record in table.items() if record.uid == uid), None)
    if name is not None:
        del table[name]
    return name is not None
