"""What is free while a plan is being made: the index's free state, less what has been decided in thought."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from msgspec import Struct

from controller.scheduling.columns import Columns
from controller.scheduling.devices import choose_devices
from controller.scheduling.fabric import Fabric, Ints
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
    hole is). For each level of the fabric one number for each domain; the last level is the nodes."""

    slots: tuple[Ints, ...]
    units: tuple[Ints, ...]


def shape_of(request: GangRequest, device: DeviceRequest | None) -> Shape:
    return Shape(device, request.cpu_milli, request.memory, request.max_per_node)


class Room:
    """Free columns and devices, and a table for each shape that has been asked for. A table costs the number of
    nodes once; later it catches up with the nodes that were taken from since it was last looked at."""

    def __init__(self, fabric: Fabric, free: Columns, devices_of: Callable[[str], list[Device]]) -> None:
        self.fabric = fabric
        devices = {kind: column.copy() for kind, column in free.devices.items()}
        self.free = Columns(free.cpu.copy(), free.memory.copy(), devices)
        self._devices_of = devices_of
        self._lists: dict[int, list[Device]] = {}
        self._tables: dict[Shape, Table] = {}
        self._taken: list[int] = []  # positions, in the order in which they were taken from
        self._seen: dict[Shape, int] = {}  # how much of that each table knows

    def table(self, shape: Shape) -> Table:
        """The table of a shape as of now. It is the room's own: it changes with later calls."""
        found = self._tables.get(shape)
        if found is None:
            found = self._tables[shape] = tabulate(self.fabric, self._units(shape), shape.max_per_node)
        elif self._seen[shape] < len(self._taken):
            self._catch_up(shape, found)
        self._seen[shape] = len(self._taken)
        return found

    def take(self, shape: Shape, workers: Mapping[int, int]) -> tuple[WorkerPlacement, ...]:
        """Take so many workers at each position. Returns them in rank order, with their devices."""
        placed = []
        for position in sorted(workers):
            placed += [self._take_one(shape, position) for _ in range(workers[position])]
        self._taken += sorted(workers)
        return tuple(placed)

    def _take_one(self, shape: Shape, position: int) -> WorkerPlacement:
        node = self.fabric.nodes[position]
        self.free.cpu[position] -= shape.cpu_milli
        self.free.memory[position] -= shape.memory
        if shape.device is None:
            return WorkerPlacement(node)
        if position not in self._lists:
            self._lists[position] = self._devices_of(node)
        free, kind = self._lists[position], shape.device.type
        chosen = choose_devices([device for device in free if device.type == kind], shape.device.count)
        self._lists[position] = [device for device in free if device.index not in chosen]
        self.free.devices[kind][position] -= len(chosen)
        return WorkerPlacement(node, chosen)

    def _catch_up(self, shape: Shape, table: Table) -> None:
        """Carry what has changed at some nodes into every level of a table."""
        rows = np.unique(np.array(self._taken[self._seen[shape] :], dtype=np.int64))
        units = self._units(shape, rows)
        for columns, after in ((table.units, units), (table.slots, np.minimum(units, shape.max_per_node))):
            change = after - columns[-1][rows]
            for level, column in zip(self.fabric.levels, columns, strict=True):
                np.add.at(column, level.of[rows], change)

    def _units(self, shape: Shape, rows: Ints | None = None) -> Ints:
        limits = [(column if rows is None else column[rows]) // need for _, column, need in needs(self.free, shape)]
        if not limits:
            return np.full(len(self.fabric.nodes) if rows is None else len(rows), shape.max_per_node, dtype=np.int64)
        smallest: Ints = np.minimum.reduce(limits)
        return smallest


def needs(free: Columns, shape: Shape) -> list[tuple[str, Ints, int]]:
    """What a worker of this shape needs of each resource, with the resource's name and free column."""
    found = [("CPU", free.cpu, shape.cpu_milli), ("memory", free.memory, shape.memory)]
    if shape.device is not None:
        found.insert(0, (shape.device.type, free.kind(shape.device.type), shape.device.count))
    return [(name, column, need) for name, column, need in found if need]


def tabulate(fabric: Fabric, units: Ints, max_per_node: int) -> Table:
    slots = np.minimum(units, max_per_node)
    return Table(
        tuple(level.sums(slots) for level in fabric.levels), tuple(level.sums(units) for level in fabric.levels)
    )


def only(fabric: Fabric, table: Table, max_per_node: int, nodes: Iterable[str]) -> Table:
    """The table of these nodes alone."""
    rows = positions(fabric, nodes)
    units = np.zeros_like(table.units[-1])
    units[rows] = table.units[-1][rows]
    return tabulate(fabric, units, max_per_node)


def without(fabric: Fabric, table: Table, nodes: Iterable[str]) -> Table:
    """The table without these nodes."""
    rows = positions(fabric, nodes)
    if not len(rows):
        return table
    result = Table(tuple(column.copy() for column in table.slots), tuple(column.copy() for column in table.units))
    for columns in (result.slots, result.units):
        lost = columns[-1][rows].copy()
        for level, column in zip(fabric.levels, columns, strict=True):
            np.subtract.at(column, level.of[rows], lost)
    return result


def positions(fabric: Fabric, nodes: Iterable[str]) -> Ints:
    """Of those nodes that exist."""
    return np.array(sorted({fabric.positions[name] for name in nodes if name in fabric.positions}), dtype=np.int64)
