"""The openb set-up: pods that ask CPU, memory and (parts of) GPUs of one node arrive one at a time and are placed or dropped."""

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from benchmarks.common import BadInput, number, table_of
from controller.scheduling.discipline.fragmentation import Shape

MOST = 8  # devices a node
POINTS = (80, 90, 100, 110, 120, 130)  # percent of the capacity that has arrived


@dataclass(frozen=True)
class Pod:
    shape: Shape
    memory: int
    lifetime: float | None = None

    @property
    def milli(self) -> int:
        return self.shape.devices * self.shape.milli


class Nodes:
    """The state of the cluster, in the order of the nodes' names. `gpu` holds free thousandths, -1 where no device is."""

    def __init__(self, rows: list[tuple[str, int, int, int, str]]) -> None:
        rows = sorted(rows)
        self.names = [row[0] for row in rows]
        self.cpu = np.array([row[1] for row in rows], np.int64)
        self.memory = np.array([row[2] for row in rows], np.int64)
        self.kinds = [row[4] for row in rows]
        counts = np.array([row[3] for row in rows])
        self.gpu = np.where(np.arange(MOST) < counts[:, None], 1000, -1).astype(np.int64)
        self.capacity = int(counts.sum()) * 1000
        self.accepts: dict[tuple[str, ...], np.ndarray] = {}

    def fitting(self, pod: Pod, among: np.ndarray) -> np.ndarray:
        """Which of these nodes have room."""
        shape = pod.shape
        fits = (self.cpu[among] >= shape.cpu) & (self.memory[among] >= pod.memory)
        if shape.kinds and shape.devices:
            if shape.kinds not in self.accepts:
                self.accepts[shape.kinds] = np.array([kind in shape.kinds for kind in self.kinds])
            fits &= self.accepts[shape.kinds][among]
        if shape.devices:
            fits &= (self.gpu[among] >= shape.milli).sum(axis=1) >= shape.devices
        return among[fits]

    def take(self, pod: Pod, node: int, device: int) -> tuple[int, ...]:
        """Place it: a fraction on this device, whole devices on the first free ones."""
        shape = pod.shape
        self.cpu[node] -= shape.cpu
        self.memory[node] -= pod.memory
        if shape.devices == 1 and shape.milli < 1000:
            devices: tuple[int, ...] = (device,)
        else:
            devices = (
                tuple(int(place) for place in np.flatnonzero(self.gpu[node] >= shape.milli)[: shape.devices])
                if shape.devices
                else ()
            )
        for place in devices:
            self.gpu[node, place] -= shape.milli
            if self.gpu[node, place] < 0:
                raise AssertionError(f"{self.names[node]}: device {place} was given away twice")
        return devices

    def release(self, pod: Pod, node: int, devices: tuple[int, ...]) -> None:
        self.cpu[node] += pod.shape.cpu
        self.memory[node] += pod.memory
        for place in devices:
            self.gpu[node, place] += pod.shape.milli

    def free(self) -> dict[str, int]:
        """Free thousandths by kind."""
        held = np.maximum(self.gpu, 0).sum(axis=1)
        kinds: dict[str, int] = {}
        for kind, milli in zip(self.kinds, held, strict=True):
            kinds[kind] = kinds.get(kind, 0) + int(milli)
        return kinds


class Rule(Protocol):
    """A policy: a cost for each node that has room, and the device for a fraction. `sees` is called at each arrival and
    answers whether the costs known so far are void."""

    def sees(self, pod: Pod) -> bool: ...

    def costs(self, pod: Pod, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


@dataclass
class Known:
    cost: np.ndarray
    device: np.ndarray
    until: int  # how many of the changes are in it


class Chooser:
    """The node of least cost, the lowest name among equals. Costs are kept for each shape and made anew only where a
    node has changed."""

    def __init__(self, nodes: Nodes, rule: Rule) -> None:
        self.nodes, self.rule = nodes, rule
        self.known: dict[tuple[Shape, int], Known] = {}
        self.changes: list[int] = []
        self.everyone = np.arange(len(nodes.names))

    def choose(self, pod: Pod) -> tuple[int, int] | None:
        if self.rule.sees(pod):
            self.known.clear()
        key = (pod.shape, pod.memory)
        known = self.known.get(key)
        if known is None:
            size = len(self.nodes.names)
            known = self.known[key] = Known(np.full(size, np.inf), np.zeros(size, np.int64), 0)
            stale = self.everyone
        else:
            stale = np.array(sorted(set(self.changes[known.until :])), np.int64)
        known.until = len(self.changes)
        if len(stale):
            known.cost[stale] = np.inf
            room = self.nodes.fitting(pod, stale)
            if len(room):
                known.cost[room], known.device[room] = self.rule.costs(pod, room)
        node = int(known.cost.argmin())
        return None if known.cost[node] == np.inf else (node, int(known.device[node]))


def read_nodes(path: Path) -> list[tuple[str, int, int, int, str]]:
    rows = []
    for line, row in enumerate(table_of(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model")), 2):
        cpu, memory, gpu = (int(number(path, line, row, column)) for column in ("cpu_milli", "memory_mib", "gpu"))
        if gpu > MOST:
            raise BadInput(f"{path}:{line}: {gpu} GPUs; at most {MOST} a node are known here")
        rows.append((row["sn"], cpu, memory, gpu, row["model"]))
    if not rows:
        raise BadInput(f"{path}: no node in it")
    if len({row[0] for row in rows}) < len(rows):
        raise BadInput(f"{path}: two nodes have the same name")
    return rows


def read_pods(path: Path, lifetimes: bool = False) -> list[Pod]:
    columns = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    pods = []
    for line, row in enumerate(
        table_of(path, (*columns, *(("creation_time", "deletion_time") if lifetimes else ()))), 2
    ):
        cpu, memory, devices, milli = (int(number(path, line, row, column)) for column in columns)
        if devices and (not 0 < milli <= 1000 or (devices > 1 and milli < 1000)):
            raise BadInput(f"{path}:{line}: {devices} GPUs of {milli} thousandths each is no request")
        kinds = tuple(sorted(filter(None, (row.get("gpu_spec") or "").split("|"))))
        life = (
            number(path, line, row, "deletion_time") - number(path, line, row, "creation_time") if lifetimes else None
        )
        pods.append(Pod(Shape(cpu, devices, milli if devices else 0, kinds), memory, life))
    if not any(pod.milli for pod in pods):
        raise BadInput(f"{path}: no pod in it asks for a GPU")
    return pods


def arrivals(pods: list[Pod], wanted: float, seed: int) -> list[Pod]:
    """The pods shuffled, then random copies until the requests reach `wanted` thousandths; random pods are deleted when
    there are too many."""
    draw = random.Random(seed)
    order = list(pods)
    draw.shuffle(order)
    asked = sum(pod.milli for pod in order)
    while asked > wanted:
        asked -= order.pop(draw.randrange(len(order))).milli
    while asked < wanted:
        copy = draw.choice(pods)
        order.append(copy)
        asked += copy.milli
    return order


def simulate(nodes: Nodes, rule: Rule, order: list[Pod], spacing: float | None = None) -> dict[str, dict[str, float]]:
    """Place them one at a time; the percentages at each point of the load. With `spacing` seconds between arrivals pods
    leave at the end of their lives."""
    chooser = Chooser(nodes, rule)
    leaving: list[tuple[float, int, Pod, int, tuple[int, ...]]] = []
    asked = held = dropped = 0
    points = iter(POINTS)
    point = next(points)
    unallocated: dict[str, float] = {}
    lost: dict[str, float] = {}
    for number_, pod in enumerate(order):
        for left, node, devices in _leave(leaving, number_ * (spacing or 0.0)):
            nodes.release(left, node, devices)
            chooser.changes.append(node)
            held -= left.milli
        asked += pod.milli
        where = chooser.choose(pod)
        if where is None:
            dropped += pod.milli
        else:
            devices = nodes.take(pod, *where)
            chooser.changes.append(where[0])
            held += pod.milli
            if spacing is not None and pod.lifetime is not None:
                heapq.heappush(leaving, (number_ * spacing + pod.lifetime, number_, pod, where[0], devices))
        while asked * 100 >= point * nodes.capacity:
            unallocated[str(point)] = 100 - 100 * held / nodes.capacity
            lost[str(point)] = 100 * dropped / asked
            point = next(points, 10**9)
    return {"unallocated_percent": unallocated, "dropped_percent": lost}


def _leave(
    leaving: list[tuple[float, int, Pod, int, tuple[int, ...]]], now: float
) -> Iterator[tuple[Pod, int, tuple[int, ...]]]:
    while leaving and leaving[0][0] <= now:
        _, _, pod, node, devices = heapq.heappop(leaving)
        yield pod, node, devices
