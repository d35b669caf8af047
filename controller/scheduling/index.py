"""The planner's picture of the cluster.

    index = build(records)            cold, from everything that lives
    index = apply(index, changes)     incremental; equals the cold one

It holds what is committed though not yet seen: a worker occupies its devices, CPU and memory from the commit of
its placement until it is confirmed ended.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

import numpy as np
from msgspec import Struct

from controller.records import (
    AttemptRecord,
    Change,
    CheckpointRecord,
    JobRecord,
    MaintenanceWindowRecord,
    NodeRecord,
    ProgramRecord,
    QueueRecord,
    Record,
    ReservationRecord,
    WorkerRecord,
)
from controller.scheduling.columns import (
    Columns,
    carried,
    count_free,
    count_total,
    empty_columns,
    free_devices,
    takes_work,
)
from controller.scheduling.crew import Crew, crew_of
from controller.scheduling.fabric import DEFAULT_LEVELS, NODE, Fabric, Ints, path_of, weave
from controller.scheduling.kinds import Asked, Turn
from controller.scheduling.layers import Layers
from controller.scheduling.requests import request_of, same_wish, turn, wants_to_start
from controller.scheduling.room import Room
from controller.scheduling.stock import Stock
from controller.scheduling.types import GangRequest
from muster.problems import FieldError, nearest
from muster.protocol import Device
from muster.states import JOB_TERMINAL, AttemptPhase

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

FEW = 32
"""Changes of the order of service up to which each is put in its place by itself."""
Known = TypeVar(
    "Known",
    JobRecord,
    QueueRecord,
    NodeRecord,
    WorkerRecord,
    AttemptRecord,
    ReservationRecord,
    MaintenanceWindowRecord,
)
Named = TypeVar("Named", NodeRecord, QueueRecord, ReservationRecord, MaintenanceWindowRecord)


class ClusterIndex(Struct, frozen=True, kw_only=True):
    """Nodes, queues, reservations and maintenance windows by name, live jobs and attempts by uid, live workers by node and uid. `asks` are the
    requests of all live jobs, `gangs` those of the jobs that want to start. `carded` are the kinds of devices that
    some node gives out by whole cards. `free` is what is free now, `total` what would be if nothing ran. `order` are
    the gangs that may start now, as they are served; `busy` counts what still lives of each job, `priorities` the live
    jobs of each queue and priority. `stamps` gives each node's row a number that changes with it, and `stock` is what
    the plans of this line of indexes remember; neither is part of what the index says."""

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
    order: tuple[Asked, ...] = ()
    busy: Mapping[str, int] = {}
    priorities: Mapping[tuple[str, int], int] = {}
    elastic: int = 0
    """Live jobs that may run with fewer workers than they wish."""
    limited: int = 0
    """Live jobs with a time limit."""
    members: Mapping[str, Mapping[str, WorkerRecord]] = {}
    """The live workers of each attempt, by uid."""
    stopping: Mapping[str, AttemptRecord] = {}
    """Attempts on their way out, by uid."""
    crews: Mapping[str, Crew] = {}
    """What runs, by job uid."""
    stamps: Ints
    stock: Stock
    programs: Mapping[str, ProgramRecord] = {}
    """What past runs needed, by uid."""
    astray: frozenset[str] = frozenset()
    """Attempts that lie in several domains of the level that they require, since labels changed under them."""
    reservations: Mapping[str, ReservationRecord] = {}
    windows: Mapping[str, MaintenanceWindowRecord] = {}
    tainted: frozenset[str] = frozenset()
    """Nodes with taints."""

    def requests(self) -> list[GangRequest]:
        """The gangs that wait for a placement, in the order in which they are served. A job of which anything
        still lives is not among them."""
        return [asked.request for asked in self.order]

    def free_devices(self, node: str) -> list[Device]:
        """Healthy devices of a node that nobody holds."""
        return free_devices(self.nodes[node], self.workers.get(node, {}))

    def records(self) -> list[Record]:
        """Everything that the index was made from: a cold build of these is equal to it."""
        living = [worker for workers in self.workers.values() for worker in workers.values()]
        return [
            *self.nodes.values(),
            *self.queues.values(),
            *self.reservations.values(),
            *self.windows.values(),
            *self.jobs.values(),
            *self.attempts.values(),
            *living,
            *self.saved.values(),
            *self.programs.values(),
        ]

    def check(self) -> None:
        """Raises AssertionError where the index contradicts itself or a cold build of the same records."""
        for node, workers in self.workers.items():
            held = Counter(device for worker in workers.values() for device in worker.devices)
            assert all(count == 1 for count in held.values()), f"{node}: a device is held twice: {held}"
        cold = build(self.records(), revision=self.revision, levels=self.level_names)
        tables = (
            "nodes",
            "queues",
            "reservations",
            "windows",
            "tainted",
            "jobs",
            "asks",
            "gangs",
            "attempts",
            "homes",
            "workers",
            "carded",
            "saved",
            "programs",
        )
        for table in (*tables, "busy", "priorities", "elastic", "limited", "members", "stopping", "crews"):
            assert getattr(cold, table) == getattr(self, table), f"{table} differ from a cold build"
        assert cold.requests() == self.requests(), "the order of service differs from a cold build"
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
        stamps=np.zeros(0, dtype=np.int64),
        stock=Stock(),
    )
    draft = _Draft(empty)
    for record in records:
        draft.put(record)
    return draft.finish()


def empty_room(index: ClusterIndex) -> Room:
    """What would be free if nothing ran. Nobody takes anything out of it."""

    def devices_of(node: str) -> list[Device]:
        return free_devices(index.nodes[node], {})

    def find() -> Room:
        known: Room | None = index.stock.last("empty")
        twin = known.twin() if known is not None else None
        if twin is not None and twin.renew(index.fabric, index.total, devices_of, index.carded, index.stamps):
            return twin
        return Room(index.fabric, index.total, devices_of, index.carded, index.stamps)

    return index.stock.fact("empty", (index.fabric, index.total, index.nodes), find)


def idle_nodes(index: ClusterIndex) -> tuple[NodeRecord, ...]:
    """Nodes that take no work."""
    return index.stock.fact(
        "idle", (index.nodes,), lambda: tuple(node for node in index.nodes.values() if not takes_work(node))
    )


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
    """One application of changes: the tables, copied when they are first written, and what has to be counted anew."""

    def __init__(self, index: ClusterIndex) -> None:
        self.before = index
        self.revision = index.revision
        self.nodes, self.queues = _Table(index.nodes), _Table(index.queues)
        self.jobs, self.attempts = _Table(index.jobs), _Table(index.attempts)
        self.asks, self.gangs = _Table(index.asks), _Table(index.gangs)
        self.homes, self.workers = _Table(index.homes), _Nest(index.workers)
        self.stopping = _Table(index.stopping)
        self.members, self.crews = _Nest(index.members), _Table(index.crews)
        self.busy, self.priorities = _Table(index.busy), _Table(index.priorities)
        self.saved = _Table(index.saved)
        self.elastic, self.limited = index.elastic, index.limited
        self.manning: set[str] = set()  # attempts of which something changed
        self.programs = index.programs  # copied when one changes
        self.reservations, self.windows = _Table(index.reservations), _Table(index.windows)
        self.moved = False  # nodes have come, gone or changed their place in the fabric
        self.changed: set[str] = set()  # nodes whose own record changed
        self.stirred: set[str] = set()  # nodes whose workers changed
        self.saving: set[str] = set()  # jobs of which a checkpoint was told
        self.asking: set[str] = set()  # jobs that may have come to the order of service, or left it

    def put(self, record: Record) -> None:
        match record:
            case JobRecord():
                self._job(record)
            case AttemptRecord():
                self._attempt(record)
            case WorkerRecord():
                self._worker(record)
            case NodeRecord():
                self._node(record)
            case QueueRecord():
                _keep(self.queues, record.name, record)
            case ProgramRecord():
                self.programs = {**self.programs, record.uid: record}
            case CheckpointRecord():
                self._checkpoint(record)
            case ReservationRecord():
                _keep(self.reservations, record.name, record)
            case MaintenanceWindowRecord():
                _keep(self.windows, record.name, record)
            case _:
                pass  # incidents and events place nothing

    def delete(self, kind: str, uid: str) -> None:
        match kind:
            case "Job":
                self.jobs.drop(uid)
                self._ask(uid, None)
                self.gangs.drop(uid)
                self.asking.add(uid)
                self.saved.drop(uid)
            case "Attempt":
                self.manning.add(uid)
                self.stopping.drop(uid)
                if (gone := self.attempts.drop(uid)) is not None:
                    self._uncrew(gone)
                    self._live(gone.job_uid, -1)
            case "Worker":
                self._vacate(uid)
            case "Node":
                self.moved |= _drop(self.nodes, uid)
            case "Program":
                self.programs = {known: one for known, one in self.programs.items() if known != uid}
            case "Queue":
                _drop(self.queues, uid)
            case "Reservation":
                _drop(self.reservations, uid)
            case "MaintenanceWindow":
                _drop(self.windows, uid)

    def _job(self, job: JobRecord) -> None:
        known = self.jobs.now.get(job.uid)
        if not _keep(self.jobs, job.uid, job, live=job.phase not in JOB_TERMINAL):
            return
        self.asking.add(job.uid)
        if job.phase in JOB_TERMINAL:
            self._ask(job.uid, None)
            self.saved.drop(job.uid)
        else:
            asked = self.asks.now.get(job.uid)
            self._ask(job.uid, asked if asked is not None and same_wish(known, job) else request_of(job))
        if wants_to_start(job):
            self.gangs.put(job.uid, self.asks.now[job.uid])
        else:
            self.gangs.drop(job.uid)

    def _ask(self, uid: str, request: GangRequest | None) -> None:
        known = self.asks.now.get(uid)
        if known is request:
            return
        for ask, change in ((known, -1), (request, 1)):
            if ask is not None:
                _count(self.priorities, (ask.queue, ask.priority), change)
                self.elastic += change if ask.minimum else 0
                self.limited += change if ask.limit is not None else 0
        if request is None:
            self.asks.drop(uid)
        else:
            self.asks.put(uid, request)
        self._man(uid)

    def _man(self, job: str) -> None:
        """The crew of a job has to be looked at, where it has one."""
        if (crew := self.crews.now.get(job)) is not None:
            self.manning.add(crew.attempt.uid)
        elif job in self.busy.now:
            self.manning.update(attempt.uid for attempt in self.attempts.now.values() if attempt.job_uid == job)

    def _attempt(self, attempt: AttemptRecord) -> None:
        self.manning.add(attempt.uid)
        before = self.attempts.now.get(attempt.uid)
        _keep(self.attempts, attempt.uid, attempt, live=attempt.phase is not AttemptPhase.ENDED)
        after = self.attempts.now.get(attempt.uid)
        if after is not None and after.phase is AttemptPhase.STOPPING:
            self.stopping.put(attempt.uid, after)
        else:
            self.stopping.drop(attempt.uid)
        if before is not None and after is None:
            self._uncrew(before)
        for record, change in ((before, -1), (after, 1)):
            if record is not None and (before is None) != (after is None):
                self._live(record.job_uid, change)

    def _uncrew(self, attempt: AttemptRecord) -> None:
        if (crew := self.crews.now.get(attempt.job_uid)) is not None and crew.attempt.uid == attempt.uid:
            self.crews.drop(attempt.job_uid)

    def _crews(self) -> Mapping[str, Crew]:
        """What runs, with the crews of which something changed made anew."""
        for uid in sorted(self.manning):
            attempt, workers = self.attempts.now.get(uid), self.members.now.get(uid)
            request = self.asks.now.get(attempt.job_uid) if attempt is not None else None
            if attempt is not None and workers and request is not None:
                crew = crew_of(request, attempt, workers.values(), self.saved.now.get(attempt.job_uid))
                self.crews.put(attempt.job_uid, crew)
            elif attempt is not None:
                self._uncrew(attempt)
        return self.crews.done()

    def _live(self, job: str, change: int) -> None:
        """An attempt or a worker of a job has come or gone."""
        _count(self.busy, job, change)
        self.asking.add(job)

    def _checkpoint(self, record: CheckpointRecord) -> None:
        """What was saved once stays a save, though it may have been pruned for a newer one."""
        known = self.saved.now.get(record.job_uid)
        newer = known is None or (record.created_at, record.uid) > (known.created_at, known.uid)
        if record.complete and newer:
            self.saved.put(record.job_uid, record)
            self.saving.add(record.job_uid)
            self._man(record.job_uid)

    def _worker(self, worker: WorkerRecord) -> None:
        home = self.homes.now.get(worker.uid)
        known = self.workers.now[home][worker.uid] if home is not None else None
        if known is not None and worker.revision < known.revision:
            return
        self._vacate(worker.uid)
        if not worker.released:
            self.homes.put(worker.uid, worker.node)
            self.workers.put_in(worker.node, worker.uid, worker)
            self.members.put_in(worker.attempt_uid, worker.uid, worker)
            self.manning.add(worker.attempt_uid)
            self.stirred.add(worker.node)
            self._live(worker.job_uid, 1)

    def _vacate(self, uid: str) -> None:
        home = self.homes.drop(uid)
        if home is None:
            return
        gone = self.workers.drop_in(home, uid)
        self.members.drop_in(gone.attempt_uid, uid)
        self.manning.add(gone.attempt_uid)
        self._live(gone.job_uid, -1)
        self.stirred.add(home)

    def _node(self, node: NodeRecord) -> None:
        known = self.nodes.now.get(node.name)
        if _keep(self.nodes, node.name, node):
            names = self.before.level_names
            self.moved |= known is None or path_of(known.labels, names) != path_of(node.labels, names)
            self.changed.add(node.name)

    def finish(self) -> ClusterIndex:
        before, nodes, workers = self.before, self.nodes.now, self.workers.now
        fabric, free, total, stamps = before.fabric, before.free, before.total, before.stamps
        if self.moved:
            names = before.level_names
            fabric = weave({name: path_of(node.labels, names) for name, node in nodes.items()}, names)
            free, total = carried(free, before.fabric, fabric), carried(total, before.fabric, fabric)
            stamps = np.full(len(fabric.nodes), before.stock.stamp(), dtype=np.int64)
        if changed := sorted(self.changed & nodes.keys()):
            total = count_total(total, fabric, (nodes[name] for name in changed))
        if stirred := sorted((self.changed | self.stirred) & nodes.keys()):
            free = count_free(free, fabric, ((nodes[name], workers.get(name, {})) for name in stirred))
            stamps = stamps.copy()
            stamps[[fabric.positions[name] for name in stirred]] = before.stock.stamp()
        return ClusterIndex(
            revision=self.revision,
            level_names=before.level_names,
            fabric=fabric,
            nodes=self.nodes.done(),
            queues=self.queues.done(),
            jobs=self.jobs.done(),
            asks=self.asks.done(),
            gangs=self.gangs.done(),
            attempts=self.attempts.done(),
            homes=self.homes.done(),
            workers=self.workers.done(),
            free=free,
            total=total,
            carded=self._carded(),
            order=self._order(),
            busy=self.busy.done(),
            priorities=self.priorities.done(),
            elastic=self.elastic,
            limited=self.limited,
            members=self.members.done(),
            stopping=self.stopping.done(),
            crews=self._crews(),
            stamps=stamps,
            stock=before.stock,
            saved=self._saved(),
            programs=self.programs,
            astray=self._astray(fabric),
            reservations=self.reservations.done(),
            windows=self.windows.done(),
            tainted=self._tainted(),
        )

    def _astray(self, fabric: Fabric) -> frozenset[str]:
        """Looked for when nodes have come, gone or changed their place."""
        if not self.moved:
            return self.before.astray & self.attempts.now.keys() if self.before.astray else self.before.astray
        domains: dict[str, set[int]] = {}
        for workers in self.workers.now.values():
            for worker in workers.values():
                ask = self.asks.now.get(worker.job_uid)
                if ask is not None and ask.required_level and worker.node in fabric.positions:
                    level = fabric.levels[fabric.depth(ask.required_level)]
                    domain = int(level.of[fabric.positions[worker.node]])
                    domains.setdefault(worker.attempt_uid, set()).add(domain)
        return frozenset(attempt for attempt, found in domains.items() if len(found) > 1)

    def _saved(self) -> Mapping[str, CheckpointRecord]:
        """Of jobs that live: a checkpoint may be read before its job."""
        for uid in [uid for uid in self.saving if uid not in self.jobs.now]:
            self.saved.drop(uid)
        return self.saved.done()

    def _carded(self) -> frozenset[str]:
        nodes, before = self.nodes.now, self.before.carded
        if not self.changed and len(nodes) == len(self.before.nodes):
            return before
        looked = nodes.values() if before else [nodes[name] for name in self.changed if name in nodes]
        return frozenset(d.type for node in looked for d in node.devices if d.card is not None)

    def _tainted(self) -> frozenset[str]:
        before, nodes = self.before, self.nodes.now
        if not self.changed and len(nodes) == len(before.nodes):
            return before.tainted
        kept = {name for name in before.tainted - self.changed if name in nodes}
        return frozenset(kept | {name for name in self.changed if name in nodes and nodes[name].taints})

    def _order(self) -> tuple[Asked, ...]:
        """The order of service: what is new is put in its place, what went is taken out."""
        if not self.asking:
            return self.before.order
        gangs, busy = self.gangs.now, self.busy.now
        came = [
            Asked(turn(gang), gang, self.before.stock.kind(gang))
            for uid in self.asking
            if (gang := gangs.get(uid)) is not None and uid not in busy
        ]
        went = [turn(gang) for uid in self.asking if (gang := self.before.gangs.get(uid)) is not None]
        if len(came) + len(went) > FEW:
            kept = [asked for asked in self.before.order if asked.request.job_uid not in self.asking]
            return tuple(sorted([*kept, *came], key=_turn))
        order = list(self.before.order)
        for place in went:
            at = bisect_left(order, place, key=_turn)
            if at < len(order) and order[at].turn == place:
                del order[at]
        for asked in came:
            order.insert(bisect_left(order, asked.turn, key=_turn), asked)
        return tuple(order)


class _Table(Generic[Key, Value]):
    """A table that becomes another version when it is first written."""

    def __init__(self, before: Mapping[Key, Value]) -> None:
        self._before = Layers.of(before)
        self.now: Layers[Key, Value] = self._before

    def put(self, key: Key, value: Value) -> None:
        self._mine().put(key, value)

    def drop(self, key: Key) -> Value | None:
        return self._mine().drop(key) if key in self.now else None

    def done(self) -> Layers[Key, Value]:
        """What the index gets."""
        return self.now.settled()

    def _mine(self) -> Layers[Key, Value]:
        if self.now is self._before:
            self.now = self._before.branch()
        return self.now


class _Nest(_Table[str, Mapping[str, WorkerRecord]]):
    """A table of tables, of which only those are copied that are written."""

    def __init__(self, before: Mapping[str, Mapping[str, WorkerRecord]]) -> None:
        super().__init__(before)
        self._fresh: dict[str, dict[str, WorkerRecord]] = {}

    def put_in(self, key: str, uid: str, worker: WorkerRecord) -> None:
        self._inner(key)[uid] = worker

    def drop_in(self, key: str, uid: str) -> WorkerRecord:
        inner = self._inner(key)
        gone = inner.pop(uid)
        if not inner:
            self.drop(key)
            del self._fresh[key]
        return gone

    def _inner(self, key: str) -> dict[str, WorkerRecord]:
        found = self._fresh.get(key)
        if found is None:
            found = self._fresh[key] = dict(self.now.get(key, {}))
            self.put(key, found)
        return found


def _turn(asked: Asked) -> Turn:
    return asked.turn


def _count(table: _Table[Key, int], key: Key, change: int) -> None:
    if after := table.now.get(key, 0) + change:
        table.put(key, after)
    else:
        table.drop(key)


def _keep(table: _Table[str, Known], key: str, record: Known, live: bool = True) -> bool:
    """Put a record, or drop it where it no longer lives. False when something newer of it is known already."""
    known = table.now.get(key)
    if known is not None and known.uid == record.uid and record.revision < known.revision:
        return False
    if live:
        table.put(key, record)
    else:
        table.drop(key)
    return True


def _drop(table: _Table[str, Named], uid: str) -> bool:
    """Remove by uid from a table by name. Its name may be another's by now: that one stays."""
    name = next((name for name, record in table.now.items() if record.uid == uid), None)
    if name is not None:
        table.drop(name)
    return name is not None
