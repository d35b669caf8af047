"""What is free while a plan is being made: the index's free state, less what has been decided in thought."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from msgspec import Struct

from controller.scheduling.devices import choose_devices
from controller.scheduling.fabric import Fabric, Ints
from controller.scheduling.index import ClusterIndex
from controller.scheduling.types import DeviceRequest, GangRequest, WorkerPlacement
from muster.protocol import Device


class Shape(Struct, frozen=True):
    """What one worker of a gang takes, and how many of the gang one node may hold."""

    device: DeviceRequest | None
    cpu_milli: int
    memory: int
    max_per_node: int


class Table(Struct, frozen=True):
    """How many workers of one shape fit: `slots` with the gang's limit per node, `units` without it (how large a
    hole is). For each level of the fabric, one number for each domain; the last level is the nodes."""

    slots: tuple[Ints, ...]
    units: tuple[Ints, ...]


def shape_of(request: GangRequest, device: DeviceRequest | None) -> Shape:
    return Shape(device, request.cpu_milli, request.memory, request.max_per_node)


class Room:
    """Free columns and devices, and a table for each shape that has been asked for, kept up to date."""

    def __init__(self, index: ClusterIndex) -> None:
        self.fabric: Fabric = index.fabric
        self._index = index
        self._cpu, self._memory = index.free.cpu.copy(), index.free.memory.copy()
        self._devices = {kind: column.copy() for kind, column in index.free.devices.items()}
        self._lists: dict[int, list[Device]] = {}
        self._tables: dict[Shape, Table] = {}

    def free(self, kind: str | None) -> Ints:
        """Free devices of a kind on each node; free thousandths of a core for None."""
        if kind is None:
            return self._cpu
        return self._devices.get(kind, np.zeros(len(self.fabric.nodes), dtype=np.int64))

    def memory(self) -> Ints:
        return self._memory

    def table(self, shape: Shape) -> Table:
        found = self._tables.get(shape)
        if found is None:
            found = self._tables[shape] = tabulate(self.fabric, self._units(shape), shape.max_per_node)
        return found

    def take(self, shape: Shape, workers: Mapping[int, int]) -> tuple[WorkerPlacement, ...]:
        """Take so many workers at each position. Returns them in rank order, with their devices."""
        placed = []
        for position in sorted(workers):
            placed += [self._take_one(shape, position) for _ in range(workers[position])]
        self._refresh(sorted(workers))
        return tuple(placed)

    def _take_one(self, shape: Shape, position: int) -> WorkerPlacement:
        node = self.fabric.nodes[position]
        self._cpu[position] -= shape.cpu_milli
        self._memory[position] -= shape.memory
        if shape.device is None:
            return WorkerPlacement(node)
        free = self._lists.setdefault(position, self._index.free_devices(node))
        wanted = shape.device.type
        devices = choose_devices((device for device in free if device.type == wanted), shape.device.count)
        self._lists[position] = [device for device in free if device.index not in devices]
        self._devices[wanted][position] -= len(devices)
        return WorkerPlacement(node, devices)

    def _refresh(self, positions: list[int]) -> None:
        """Carry the change at these nodes into every table, domain by domain."""
        rows = np.array(positions, dtype=np.int64)
        for shape, table in self._tables.items():
            units = self._units(shape, rows)
            for columns, after in ((table.units, units), (table.slots, np.minimum(units, shape.max_per_node))):
                change = after - columns[-1][rows]
                for level, column in zip(self.fabric.levels, columns, strict=True):
                    np.add.at(column, level.of[rows], change)

    def _units(self, shape: Shape, rows: Ints | None = None) -> Ints:
        limits = [(self._cpu, shape.cpu_milli), (self._memory, shape.memory)]
        if shape.device is not None:
            limits.append((self.free(shape.device.type), shape.device.count))
        parts = [(column if rows is None else column[rows]) // need for column, need in limits if need]
        if not parts:
            return np.full(len(self._cpu if rows is None else rows), shape.max_per_node, dtype=np.int64)
        smallest: Ints = np.minimum.reduce(parts)
        return smallest


def tabulate(fabric: Fabric, units: Ints, max_per_node: int) -> Table:
    slots = np.minimum(units, max_per_node)
    return Table(
        tuple(level.sums(slots) for level in fabric.levels), tuple(level.sums(units) for level in fabric.levels)
    )


def only(fabric: Fabric, table: Table, shape: Shape, nodes: Collection[str]) -> Table:
    """The table of these nodes alone."""
    rows = _positions(fabric, nodes)
    units = np.zeros_like(table.units[-1])
    units[rows] = table.units[-1][rows]
    return tabulate(fabric, units, shape.max_per_node)


def without(fabric: Fabric, table: Table, nodes: Iterable[str]) -> Table:
    """The table without these nodes."""
    rows = np.array(_positions(fabric, nodes), dtype=np.int64)
    if not len(rows):
        return table
    slots, units = tuple(column.copy() for column in table.slots), tuple(column.copy() for column in table.units)
    for columns in (slots, units):
        lost = columns[-1][rows].copy()
        for level, column in zip(fabric.levels, columns, strict=True):
            np.subtract.at(column, level.of[rows], lost)
    return Table(slots, units)


def _positions(fabric: Fabric, nodes: Iterable[str]) -> list[int]:
    return sorted({fabric.positions[name] for name in nodes if name in fabric.positions})
