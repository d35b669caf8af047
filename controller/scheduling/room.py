"""What is free while a plan is being made: the index's free state, less what has been decided in thought."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from msgspec import Struct

from controller.scheduling.columns import Columns
from controller.scheduling.devices import choose_devices, worker_units
from controller.scheduling.fabric import Bools, Fabric, Ints
from controller.scheduling.types import DeviceRequest, GangRequest, WorkerPlacement
from muster.protocol import Device


class Shape(Struct, frozen=True):
    """What one worker of a gang takes, and how many of the gang one node may hold."""

    device: DeviceRequest | None
    cpu_milli: int
    memory: int
    max_per_node: int
    rails: tuple[int, ...] = ()


class Table(Struct, frozen=True):
    """How many workers of one shape fit: `slots` with the gang's limit per node, `units` without it (how large a
    hole is). For each level of the fabric one number for each domain; the last level is the nodes."""

    slots: tuple[Ints, ...]
    units: tuple[Ints, ...]


def shape_of(request: GangRequest, device: DeviceRequest | None) -> Shape:
    return Shape(device, request.cpu_milli, request.memory, request.max_per_node)


class Room:
    """Free columns and devices, and a table for each shape that has been asked for. A table costs the number of
    nodes once; later it catches up with the nodes that were taken from since it was last looked at. `carded` are the
    kinds whose devices are given out by whole cards."""

    def __init__(
        self,
        fabric: Fabric,
        free: Columns,
        devices_of: Callable[[str], list[Device]],
        carded: frozenset[str] = frozenset(),
    ) -> None:
        self.fabric, self.carded = fabric, carded
        self._columns = {kind: column.copy() for kind, column in free.devices.items()}
        self.free = Columns(free.cpu.copy(), free.memory.copy(), self._columns)
        self._devices_of = devices_of
        self._lists: dict[int, list[Device]] = {}
        self._tables: dict[Shape, Table] = {}
        self._taken: list[int] = []  # positions, in the order in which they were taken from
        self._seen: dict[Shape, int] = {}  # how much of that each table knows

    def copy(self) -> "Room":
        """Another room that is as free as this one."""
        other = Room(self.fabric, self.free, self._devices_of, self.carded)
        other._lists = dict(self._lists)
        return other

    def table(self, shape: Shape) -> Table:
        """The table of a shape as of now. It is the room's own: it changes with later calls."""
        found = self._tables.get(shape)
        if found is None:
            found = self._tables[shape] = tabulate(self.fabric, self._units(shape), shape.max_per_node)
        elif self._seen[shape] < len(self._taken):
            self._catch_up(shape, found)
        self._seen[shape] = len(self._taken)
        return found

    def devices(self, position: int) -> list[Device]:
        """What is free on a node, in thought."""
        if position not in self._lists:
            self._lists[position] = self._devices_of(self.fabric.nodes[position])
        return self._lists[position]

    def take(self, shape: Shape, workers: Mapping[int, int], role: str = "worker") -> tuple[WorkerPlacement, ...]:
        """Take so many workers at each position. Returns them in rank order, with their devices."""
        placed = []
        for position in sorted(workers):
            placed += [self._take_one(shape, position, role) for _ in range(workers[position])]
        self._taken += sorted(workers)
        return tuple(placed)

    def give(self, node: str, cpu_milli: int, memory: int, devices: Iterable[Device]) -> None:
        """What a worker holds becomes free in thought."""
        position = self.fabric.positions[node]
        given = list(devices)
        self.free.cpu[position] += cpu_milli
        self.free.memory[position] += memory
        self._lists[position] = [*self.devices(position), *given]
        for device in given:
            column = self._columns.setdefault(device.type, np.zeros_like(self.free.cpu))
            column[position] += 1
        self._taken.append(position)

    def lose(self, position: int, cpu_milli: int, memory: int, devices: Iterable[Device]) -> None:
        """Exactly this is taken."""
        gone = list(devices)
        self.free.cpu[position] -= cpu_milli
        self.free.memory[position] -= memory
        indexes = {device.index for device in gone}
        self._lists[position] = [device for device in self.devices(position) if device.index not in indexes]
        for device in gone:
            self.free.devices[device.type][position] -= 1
        self._taken.append(position)

    def limit(self, other: "Room", rows: Iterable[int]) -> None:
        """Have no more free at these positions than the other room has."""
        for position in rows:
            self.free.cpu[position] = min(self.free.cpu[position], other.free.cpu[position])
            self.free.memory[position] = min(self.free.memory[position], other.free.memory[position])
            known = {device.index for device in other.devices(position)}
            self._lists[position] = [device for device in self.devices(position) if device.index in known]
            for kind, column in self.free.devices.items():
                column[position] = sum(device.type == kind for device in self._lists[position])
            self._taken.append(position)

    def _take_one(self, shape: Shape, position: int, role: str) -> WorkerPlacement:
        node = self.fabric.nodes[position]
        self.free.cpu[position] -= shape.cpu_milli
        self.free.memory[position] -= shape.memory
        if shape.device is None:
            return WorkerPlacement(node, (), role)
        free, wish = self.devices(position), shape.device
        mine = [device for device in free if device.type == wish.type]
        chosen = choose_devices(mine, wish.count, wish.joined, shape.rails)
        self._lists[position] = [device for device in free if device.index not in chosen]
        self.free.devices[wish.type][position] -= len(chosen)
        return WorkerPlacement(node, chosen, role)

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
        return self._inside_nodes(shape, smallest, rows) if self._intricate(shape) else smallest

    def _intricate(self, shape: Shape) -> bool:
        wish = shape.device
        return wish is not None and (wish.joined or bool(shape.rails) or wish.type in self.carded)

    def _inside_nodes(self, shape: Shape, most: Ints, rows: Ints | None) -> Ints:
        """What the devices' own domains, cards and rails leave of what their number would allow."""
        wish, exact = shape.device, most.copy()
        for place in np.flatnonzero(most):
            position = int(place if rows is None else rows[place])
            mine = [device for device in self.devices(position) if wish is not None and device.type == wish.type]
            if wish is not None:
                exact[place] = min(most[place], worker_units(mine, wish.count, wish.joined, shape.rails))
        return exact


def needs(free: Columns, shape: Shape) -> list[tuple[str, Ints, int]]:
    """What a worker of this shape needs of each resource, with the resource's name and free column."""
    found = [("CPU", free.cpu, shape.cpu_milli), ("memory", free.memory, shape.memory)]
    if shape.device is not None:
        found.insert(0, (shape.device.type, free.kind(shape.device.type), shape.device.count))
    return [(name, column, need) for name, column, need in found if need]


def tabulate(fabric: Fabric, units: Ints, max_per_node: int) -> Table:
    return _summed(fabric, np.minimum(units, max_per_node), units)


def _summed(fabric: Fabric, slots: Ints, units: Ints) -> Table:
    levels = fabric.levels
    return Table(tuple(level.sums(slots) for level in levels), tuple(level.sums(units) for level in levels))


def masked(fabric: Fabric, table: Table, mask: Bools) -> Table:
    """The table of some nodes alone."""
    return _summed(fabric, np.where(mask, table.slots[-1], 0), np.where(mask, table.units[-1], 0))


def lessened(fabric: Fabric, table: Table, taken: Mapping[int, int]) -> Table:
    """The table after so many workers were taken at each position."""
    slots, units = table.slots[-1].copy(), table.units[-1].copy()
    for position, count in taken.items():
        slots[position] -= count
        units[position] -= count
    return _summed(fabric, slots, units)


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
