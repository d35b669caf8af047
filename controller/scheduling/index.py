"""The planner's picture of the cluster.

    index = build(records)            cold, from everything that lives
    index = apply(index, changes)     incremental; equals the cold one

It holds what is committed though not yet seen: a worker occupies its devices, CPU and memory from the commit of
its placement until it is confirmed ended.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from controller.records import AttemptRecord, Change, JobRecord, NodeRecord, QueueRecord, Record, WorkerRecord
from controller.scheduling.fabric import DEFAULT_LEVELS, NODE, Fabric, Ints, path_of, weave
from controller.scheduling.requests import request_of, wants_to_start
from controller.scheduling.types import GangRequest
from muster.problems import FieldError, nearest
from muster.protocol import Device
from muster.states import JOB_TERMINAL, WORKER_TERMINAL, AttemptPhase, NodePhase

Known = TypeVar("Known", JobRecord, QueueRecord, NodeRecord, WorkerRecord, AttemptRecord)


class Holding(Struct, frozen=True):
    """What one worker occupies on its node."""

    worker_uid: str
    job_uid: str
    devices: tuple[int, ...]
    cpu_milli: int
    memory: int


class Columns(Struct, frozen=True):
    """One value for each node in fabric order. What is free is zero on nodes that take no new work."""

    cpu: Ints
    memory: Ints
    devices: dict[str, Ints]


class ClusterIndex(Struct, frozen=True):
    """Nodes by name, live jobs and attempts by uid, queues by name, and what is occupied, by node and worker."""

    revision: int
    level_names: tuple[str, ...]
    fabric: Fabric
    nodes: Mapping[str, NodeRecord]
    jobs: Mapping[str, JobRecord]
    attempts: Mapping[str, AttemptRecord]
    workers: Mapping[str, WorkerRecord]
    queues: Mapping[str, QueueRecord]
    holdings: Mapping[str, Mapping[str, Holding]]
    free: Columns

    def requests(self) -> list[GangRequest]:
        """The gangs that wait for a placement, in the order in which they are served."""
        busy = {attempt.job_uid for attempt in self.attempts.values()}
        waiting = (job for job in self.jobs.values() if job.uid not in busy and wants_to_start(job))
        return sorted((request_of(job) for job in waiting), key=turn)

    def free_devices(self, node: str) -> list[Device]:
        """Healthy devices of a node that nobody holds."""
        return _free_devices(self.nodes[node], self.holdings.get(node, {}))

    def emptied(self) -> "ClusterIndex":
        """The same cluster with nothing running: all but lost nodes take work."""
        nodes = {
            name: msgspec.structs.replace(node, phase=NodePhase.READY, cordoned=False)
            for name, node in self.nodes.items()
            if node.phase != NodePhase.LOST
        }
        return _assemble(self.revision, self.level_names, nodes, {}, {}, {}, self.queues)

    def check(self) -> None:
        """Raises AssertionError where the index contradicts itself or a cold build of the same records."""
        for node, holdings in self.holdings.items():
            held = [device for holding in holdings.values() for device in holding.devices]
            assert len(held) == len(set(held)), f"{node}: a device is held twice: {sorted(held)}"
        cold = _assemble(
            self.revision, self.level_names, self.nodes, self.jobs, self.attempts, self.workers, self.queues
        )
        assert cold.fabric.nodes == self.fabric.nodes, "the fabric's order differs from a cold build"
        assert cold.holdings == self.holdings, "holdings differ from a cold build"
        assert _columns_equal(cold.free, self.free), "free columns differ from a cold build"


def turn(request: GangRequest) -> tuple[bool, int, float, str, str, str]:
    """The sort key of the order in which gangs are served."""
    return (
        not request.repair,
        -request.priority,
        request.queued_at,
        request.namespace,
        request.name,
        request.job_uid,
    )


def build(records: Iterable[Record], *, revision: int = 0, levels: tuple[str, ...] = DEFAULT_LEVELS) -> ClusterIndex:
    """The index of all live records, in any order. `levels` are the fabric's, outermost first."""
    empty = _assemble(revision, levels, {}, {}, {}, {}, {})
    changes = [
        Change(
            revision=record.revision, kind=type(record).__name__.removesuffix("Record"), uid=record.uid, record=record
        )
        for record in records
    ]
    index = apply(empty, changes)
    return msgspec.structs.replace(index, revision=max(index.revision, revision))


def apply(index: ClusterIndex, changes: Iterable[Change]) -> ClusterIndex:
    """The index after `changes`, oldest first. Repeats and records older than what is known do no harm."""
    draft = _Draft(index)
    for change in changes:
        draft.take(change)
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
    """One application of changes: copies of the tables, and which nodes' rows have to be counted anew."""

    def __init__(self, index: ClusterIndex) -> None:
        self.index = index
        self.revision = index.revision
        self.nodes, self.jobs, self.attempts = dict(index.nodes), dict(index.jobs), dict(index.attempts)
        self.workers, self.queues, self.holdings = dict(index.workers), dict(index.queues), dict(index.holdings)
        self.moved = False
        self.stale: set[str] = set()

    def take(self, change: Change) -> None:
        self.revision = max(self.revision, change.revision)
        record = change.record if change.op == "put" else None
        match change.kind:
            case "Job":
                live = record if isinstance(record, JobRecord) and record.phase not in JOB_TERMINAL else None
                _put(self.jobs, change.uid, live, record)
            case "Attempt":
                going = isinstance(record, AttemptRecord) and record.phase != AttemptPhase.ENDED
                live_attempt = record if isinstance(record, AttemptRecord) and going else None
                _put(self.attempts, change.uid, live_attempt, record)
            case "Worker":
                self._worker(change.uid, record if isinstance(record, WorkerRecord) else None)
            case "Node":
                self._node(change.uid, record if isinstance(record, NodeRecord) else None)
            case "Queue":
                self._queue(change.uid, record if isinstance(record, QueueRecord) else None)

    def _worker(self, uid: str, record: WorkerRecord | None) -> None:
        before = self.workers.get(uid)
        live = record if record is not None and record.phase not in WORKER_TERMINAL else None
        if not _put(self.workers, uid, live, record):
            return
        for known, holding in ((before, None), (live, _holding(live) if live else None)):
            if known is None:
                continue
            held = {other: kept for other, kept in self.holdings.get(known.node, {}).items() if other != uid}
            if holding is not None:
                held[uid] = holding
            self.holdings[known.node] = held
            if not held:
                del self.holdings[known.node]
            self.stale.add(known.node)

    def _node(self, uid: str, record: NodeRecord | None) -> None:
        if record is None:
            gone = next((name for name, node in self.nodes.items() if node.uid == uid), None)
            if gone is not None:
                del self.nodes[gone]
                self.moved = True
            return
        before = self.nodes.get(record.name)
        if _put(self.nodes, record.name, record, record):
            names = self.index.level_names
            self.moved |= before is None or path_of(before.labels, names) != path_of(record.labels, names)
            self.stale.add(record.name)

    def _queue(self, uid: str, record: QueueRecord | None) -> None:
        if record is not None:
            _put(self.queues, record.name, record, record)
            return
        gone = next((name for name, queue in self.queues.items() if queue.uid == uid), None)
        if gone is not None:
            del self.queues[gone]

    def finish(self) -> ClusterIndex:
        if self.moved:
            return _assemble(
                self.revision, self.index.level_names, self.nodes, self.jobs, self.attempts, self.workers, self.queues
            )
        free = _recount(self.index.free, self.index.fabric, self.nodes, self.holdings, self.stale)
        return msgspec.structs.replace(
            self.index,
            revision=self.revision,
            nodes=self.nodes,
            jobs=self.jobs,
            attempts=self.attempts,
            workers=self.workers,
            queues=self.queues,
            holdings=self.holdings,
            free=free,
        )


def _put(table: dict[str, Known], key: str, value: Known | None, record: Record | None) -> bool:
    """Put or drop one record. False when something newer is known already."""
    known = table.get(key)
    if known is not None and record is not None and known.uid == record.uid and record.revision < known.revision:
        return False
    if value is None:
        return table.pop(key, None) is not None
    table[key] = value
    return True


def _holding(worker: WorkerRecord) -> Holding:
    return Holding(worker.uid, worker.job_uid, worker.devices, worker.cpu_milli, worker.memory)


def _assemble(
    revision: int,
    level_names: tuple[str, ...],
    nodes: Mapping[str, NodeRecord],
    jobs: Mapping[str, JobRecord],
    attempts: Mapping[str, AttemptRecord],
    workers: Mapping[str, WorkerRecord],
    queues: Mapping[str, QueueRecord],
) -> ClusterIndex:
    """The cold way: everything counted from the records."""
    fabric = weave({name: path_of(node.labels, level_names) for name, node in nodes.items()}, level_names)
    holdings: dict[str, dict[str, Holding]] = {}
    for worker in workers.values():
        holdings.setdefault(worker.node, {})[worker.uid] = _holding(worker)
    nothing = np.zeros(len(fabric.nodes), dtype=np.int64)
    free = _recount(Columns(nothing, nothing, {}), fabric, nodes, holdings, nodes)
    return ClusterIndex(revision, level_names, fabric, nodes, jobs, attempts, workers, queues, holdings, free)


def takes_work(node: NodeRecord) -> bool:
    return node.phase == NodePhase.READY and not node.cordoned


def _recount(
    free: Columns,
    fabric: Fabric,
    nodes: Mapping[str, NodeRecord],
    holdings: Mapping[str, Mapping[str, Holding]],
    stale: Iterable[str],
) -> Columns:
    """The columns with the rows of the `stale` nodes counted anew."""
    rows = [name for name in stale if name in fabric.positions]
    if not rows:
        return free
    cpu, memory = free.cpu.copy(), free.memory.copy()
    devices = {kind: column.copy() for kind, column in free.devices.items()}
    for name in rows:
        node, held, position = nodes[name], holdings.get(name, {}), fabric.positions[name]
        for column in (cpu, memory, *devices.values()):
            column[position] = 0
        if not takes_work(node):
            continue
        cpu[position] = max(0, node.cpu_milli - sum(holding.cpu_milli for holding in held.values()))
        memory[position] = max(0, node.memory - sum(holding.memory for holding in held.values()))
        for device in _free_devices(node, held):
            column = devices.setdefault(device.type, np.zeros(len(fabric.nodes), dtype=np.int64))
            column[position] += 1
    return Columns(cpu, memory, {kind: column for kind, column in devices.items() if column.any()})


def _free_devices(node: NodeRecord, holdings: Mapping[str, Holding]) -> list[Device]:
    taken = {device for holding in holdings.values() for device in holding.devices}
    return [device for device in node.devices if device.healthy and device.index not in taken]


def _columns_equal(one: Columns, other: Columns) -> bool:
    return (
        np.array_equal(one.cpu, other.cpu)
        and np.array_equal(one.memory, other.memory)
        and one.devices.keys() == other.devices.keys()
        and all(np.array_equal(column, other.devices[kind]) for kind, column in one.devices.items())
    )
