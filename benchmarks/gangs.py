"""The Lingjun set-up: real jobs arrive at a real Clos fabric and wait, in order, for hosts; those that do not fit are passed over."""

import heapq
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import numpy as np

from benchmarks.common import BadInput, number, table_of
from controller.scheduling.discipline.remaining import RESTART, remaining
from controller.scheduling.fabric import Fabric, weave
from controller.scheduling.placement import pick
from controller.scheduling.tables import Table, tabulate
from controller.simulation.agenda import Agenda

GPUS = 8  # of each host: the data does not say
LEVELS = ("aggregation", "leaf")
Hosts = np.ndarray  # positions in the fabric


@dataclass(frozen=True)
class Job:
    number: int
    arrives: float
    seconds: float
    hosts: int
    gpus: int  # on each host
    program: str = ""  # the virtual cluster that it comes from: all that the data says about what it is


Chooser = Callable[[np.ndarray, Job], Hosts | None]
"""Where a job lies: its hosts, or None when it does not fit. The argument is the free GPUs of each host."""


class Arrival:
    """The order of service: first come, first served."""

    def rank(self, job: Job, now: float) -> float:
        return job.number

    def started(self, job: Job, now: float) -> None:
        pass

    def ended(self, job: Job) -> None:
        pass


class Expected(Arrival):
    """The order of service of the production discipline: least expected work first, learned from the runs of the same program
    and size that have ended. Nobody is stopped for it."""

    MEMORY = 200  # runs

    def __init__(self) -> None:
        self.sizes: dict[tuple[str, int, int], deque[float]] = {}
        self.first: dict[tuple[str, int, int], float] = {}
        self.means: dict[tuple[str, int, int], float] = {}

    def rank(self, job: Job, now: float) -> float:
        key, devices = _kind(job), job.hosts * job.gpus
        if key not in self.means:
            attained = devices * (now - self.first[key]) if key in self.first else 0.0
            if key not in self.sizes:
                return remaining(0.0, (), attained) + RESTART * devices
            self.means[key] = remaining(0.0, sorted(self.sizes[key]), 0.0)
        return self.means[key] + RESTART * devices

    def started(self, job: Job, now: float) -> None:
        self.first.setdefault(_kind(job), now)

    def ended(self, job: Job) -> None:
        self.sizes.setdefault(_kind(job), deque(maxlen=self.MEMORY)).append(job.seconds * job.hosts * job.gpus)
        self.means.pop(_kind(job), None)


def _kind(job: Job) -> tuple[str, int, int]:
    return job.program, job.hosts, job.gpus


@dataclass
class Ledger:
    """What is measured of one policy."""

    waits: list[float] = field(default_factory=list)
    gang_waits: list[float] = field(default_factory=list)
    spans: list[tuple[int, ...]] = field(
        default_factory=list
    )  # leaves, minimum, minimum then; the same of aggregations
    decisions: int = 0
    seconds: float = 0.0


def read_fabric(path: Path) -> Fabric:
    """Hosts by aggregation group and leaf. Names of leaves repeat across aggregation groups; the domains nest."""
    paths: dict[str, tuple[str | None, ...]] = {}
    for line, row in enumerate(table_of(path, ("ip", "PSW", "ASW")), 2):
        if row["ip"] in paths:
            raise BadInput(f"{path}:{line}: host {row['ip'][:12]} is there twice")
        paths[row["ip"]] = (row["PSW"] or None, row["ASW"] or None)
    if not paths:
        raise BadInput(f"{path}: no host in it")
    return weave(paths, LEVELS)


def read_jobs(path: Path, hosts: int, load: float, most: int | None = None) -> list[Job]:
    """The jobs in order of arrival, the times scaled so that they offer `load` of the cluster's GPU time."""
    rows = []
    for line, row in enumerate(table_of(path, ("timestamp", "duration", "num_gpus")), 2):
        try:
            at = datetime.fromisoformat(row["timestamp"]).timestamp()
        except ValueError as error:
            raise BadInput(f"{path}:{line}: timestamp is {row['timestamp']!r}") from error
        seconds, gpus = number(path, line, row, "duration"), int(number(path, line, row, "num_gpus", 1))
        count, each = split(gpus)
        if count > hosts:
            raise BadInput(f"{path}:{line}: {gpus} GPUs are more than the cluster has")
        rows.append((at, line, seconds, count, each, row.get("cluster") or ""))
    rows = sorted(rows)[:most]
    if not rows:
        raise BadInput(f"{path}: no job in it")
    offered = sum(seconds * count * each for _, _, seconds, count, each, _ in rows)
    first, last = rows[0][0], rows[-1][0]
    scale = offered / (load * hosts * GPUS) / max(last - first, 1.0)
    return [
        Job(place, (at - first) * scale, seconds, count, each, program)
        for place, (at, _, seconds, count, each, program) in enumerate(rows)
    ]


def split(gpus: int) -> tuple[int, int]:
    """(hosts, GPUs on each): as few hosts as can share the GPUs evenly."""
    hosts = -(-gpus // GPUS)
    while gpus % hosts:
        hosts += 1
    return hosts, gpus // hosts


class Run:
    """One policy on all jobs, to their end."""

    def __init__(self, fabric: Fabric, choose: Chooser, order: Arrival) -> None:
        self.fabric, self.choose, self.order = fabric, choose, order
        self.free = np.full(len(fabric.nodes), GPUS, np.int64)
        self.agenda: Agenda[tuple[Job, Hosts | None]] = Agenda()
        self.waiting: dict[tuple[str, int, int], deque[Job]] = {}
        self.ledger = Ledger()

    def run(self, jobs: list[Job]) -> Ledger:
        for job in jobs:
            self.agenda.note(job.arrives, (job, None))
        while len(self.agenda):
            job, held = self.agenda.take()
            if held is None:
                self.waiting.setdefault(_kind(job), deque()).append(job)
            else:
                self.free[held] += job.gpus
                self.order.ended(job)
            if (
                self.agenda.next_at > self.agenda.now
            ):  # all that happens at one time is known before anything is decided
                self._start()
        return self.ledger

    def _start(self) -> None:
        """Start what fits, in order. A shape that has not fitted does not fit later in the same round."""
        now, ledger = self.agenda.now, self.ledger
        heads = [
            (self.order.rank(queue[0], now), queue[0].number, kind) for kind, queue in self.waiting.items() if queue
        ]
        heapq.heapify(heads)
        refused: set[tuple[int, int]] = set()
        while heads:
            _, _, kind = heapq.heappop(heads)
            if kind[1:] in refused:
                continue
            queue = self.waiting[kind]
            began = time.perf_counter()
            hosts = self.choose(self.free, queue[0])
            ledger.seconds += time.perf_counter() - began
            ledger.decisions += 1
            if hosts is None:
                refused.add(kind[1:])
                continue
            job = queue.popleft()
            if queue:
                heapq.heappush(heads, (self.order.rank(queue[0], now), queue[0].number, kind))
            _record(self.fabric, self.free, job, hosts, now, ledger)
            self.free[hosts] -= job.gpus
            if self.free[hosts].min() < 0:
                raise AssertionError("a policy gave a GPU away twice")
            self.order.started(job, now)
            self.agenda.note(now + job.seconds, (job, hosts))


def _record(fabric: Fabric, free: np.ndarray, job: Job, hosts: Hosts, now: float, ledger: Ledger) -> None:
    ledger.waits.append(now - job.arrives)
    if job.hosts < 2:
        return
    ledger.gang_waits.append(now - job.arrives)
    fits = (free >= job.gpus).astype(np.int64)
    row: list[int] = []
    for depth in (2, 1):  # leaves, aggregation groups
        level = fabric.levels[depth]
        row += (
            len(np.unique(level.of[hosts])),
            fewest(level.ends - level.starts, job.hosts),
            fewest(level.sums(fits), job.hosts),
        )
    ledger.spans.append(tuple(row))


def fewest(rooms: np.ndarray, hosts: int) -> int:
    """How many domains with these rooms are enough for so many hosts."""
    return int(np.searchsorted(np.cumsum(np.sort(rooms)[::-1]), hosts)) + 1


def randomly(draw: np.random.Generator) -> Chooser:
    """Any hosts that have room."""

    def choose(free: np.ndarray, job: Job) -> Hosts | None:
        fitting = np.flatnonzero(free >= job.gpus)
        return None if len(fitting) < job.hosts else draw.choice(fitting, job.hosts, replace=False)

    return choose


def first_fit(order: np.ndarray) -> Chooser:
    """The first hosts that have room, in a given order."""

    def choose(free: np.ndarray, job: Job) -> Hosts | None:
        fitting = order[free[order] >= job.gpus]
        return None if len(fitting) < job.hosts else fitting[: job.hosts]

    return choose


def best_fit(order: np.ndarray) -> Chooser:
    """The hosts with the least room, in a given order among equals."""

    def choose(free: np.ndarray, job: Job) -> Hosts | None:
        fitting = order[free[order] >= job.gpus]
        if len(fitting) < job.hosts:
            return None
        return fitting[np.argsort(free[fitting], kind="stable")[: job.hosts]]

    return choose


class Planned:
    """The planner's placement: the lowest level with a domain that holds the gang, the tightest of them. Its tables are
    kept for each shape, and made anew where a host has changed."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.tables: dict[tuple[int, int], tuple[Table, np.ndarray]] = {}

    def __call__(self, free: np.ndarray, job: Job) -> Hosts | None:
        table = self._table(free, job.gpus, 1 if job.hosts > 1 else GPUS)
        if table.slots[0][0] < job.hosts:
            return None
        chosen = pick(self.fabric, table, job.hosts, 0)
        return None if chosen is None else np.array(sorted(chosen), np.int64)

    def _table(self, free: np.ndarray, gpus: int, most: int) -> Table:
        known = self.tables.get((gpus, most))
        if known is None:
            table = tabulate(self.fabric, free // gpus, most)
            self.tables[gpus, most] = table, free.copy()
            return table
        table, seen = known
        rows = np.flatnonzero(free != seen)
        seen[rows] = free[rows]
        table.put_many(self.fabric, rows, free[rows] // gpus)
        return table
