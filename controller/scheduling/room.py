"""What is free while a plan is being made: the index's free state, less what has been decided in thought."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from msgspec import Struct

from controller.scheduling.columns import Columns
from controller.scheduling.devices import choose_devices, worker_units
from controller.scheduling.fabric import Bools, Fabric, Ints
from controller.scheduling.tables import FEW, Table, tabulate
from controller.scheduling.types import DeviceRequest, GangRequest, WorkerPlacement
from muster.protocol import Device


class Shape(Struct, frozen=True):
    """What one worker of a gang takes, and how many of the gang one node may hold."""

    device: DeviceRequest | None
    cpu_milli: int
    memory: int
    max_per_node: int
    rails: tuple[int, ...] = ()


MASKS = 32
"""Kept at most from plan to plan."""

Key = tuple[Shape, int]
"""Of a table: the shape, and the id of the mask (0: all nodes)."""


def shape_of(request: GangRequest, device: DeviceRequest | None) -> Shape:
    return Shape(device, request.cpu_milli, request.memory, request.max_per_node)


class Room:
    """Free columns and devices, and a table for each shape that has been asked for (and each mask of nodes that the
    room was told of). A table costs the number of nodes once; later it catches up with the nodes that were taken from
    since it was last looked at. `carded` are the kinds whose devices are given out by whole cards."""

    def __init__(
        self,
        fabric: Fabric,
        free: Columns,
        devices_of: Callable[[str], list[Device]],
        carded: frozenset[str] = frozenset(),
        stamps: Ints | None = None,
    ) -> None:
        self._stamps = stamps
        self._renewed = 0  # how much was taken before this was as free as an index the last time
        self.fabric, self.carded = fabric, carded
        self._columns = {kind: column.copy() for kind, column in free.devices.items()}
        self.free = Columns(free.cpu.copy(), free.memory.copy(), self._columns)
        self._devices_of = devices_of
        self._lists: dict[int, list[Device]] = {}
        self._owed: dict[int, tuple[Device, ...]] = {}  # given to nodes whose list nobody has asked for yet
        self._gift: Callable[[int], list[Device]] | None = None  # the same, of many at once
        self._masks: dict[int, Bools] = {}
        self._tables: dict[Key, Table] = {}
        self._taken: list[int] = []  # positions, in the order in which they were taken from
        self._seen: dict[Key, int] = {}  # how much of that each table knows
        self._parent: Room | None = None
        self._born = 0  # how much of that the parent knew when this was copied from it

    def copy(self) -> "Room":
        """Another room that is as free as this one. Tables are copied when they are asked for."""
        other = Room(self.fabric, self.free, self._devices_of, self.carded)
        other._lists, other._masks, other._taken = dict(self._lists), dict(self._masks), list(self._taken)
        other._owed, other._gift = dict(self._owed), self._gift
        other._parent, other._born = self, len(self._taken)
        return other

    def renew(
        self,
        fabric: Fabric,
        free: Columns,
        devices_of: Callable[[str], list[Device]],
        carded: frozenset[str],
        stamps: Ints,
    ) -> bool:
        """Be as free as another index of the same line says: only the nodes that differ are looked at, by their `stamps`
        and by what was taken meanwhile. False where that cannot be."""
        if fabric is not self.fabric or carded != self.carded or self._stamps is None:
            return False
        touched = np.zeros(len(stamps), dtype=np.bool_)
        touched[self._taken[self._renewed :]] = True
        rows = np.flatnonzero(touched | (stamps != self._stamps))
        self.free.cpu[rows], self.free.memory[rows] = free.cpu[rows], free.memory[rows]
        for kind in self._columns.keys() | free.devices.keys():
            if kind not in self._columns:
                self._columns[kind] = np.zeros_like(self.free.cpu)
            self._columns[kind][rows] = free.devices[kind][rows] if kind in free.devices else 0
        positions = rows.tolist()
        for position in positions:
            self._lists.pop(position, None)
            self._owed.pop(position, None)
        self._devices_of, self._stamps = devices_of, stamps
        self._taken += positions
        self._renewed = len(self._taken)
        self._forget()
        return True

    def _forget(self) -> None:
        """Tables that nobody asked for since much has changed go, and what no table has to catch up with."""
        limit = max(0, len(self._taken) - max(4096, 2 * len(self.fabric.nodes)))
        if full := len(self._masks) > MASKS:
            self._masks = {}
        for key in [key for key, seen in self._seen.items() if (full and key[1]) or seen < limit]:
            del self._tables[key], self._seen[key]
        if limit:
            del self._taken[:limit]
            self._seen = {key: seen - limit for key, seen in self._seen.items()}
            self._renewed -= limit

    def twin(self) -> "Room":
        """A copy that has its tables already, and nothing in common with this one."""
        other = self.copy()
        other._parent, other._stamps, other._renewed = None, self._stamps, self._renewed
        for key, table in list(self._tables.items()):
            other._tables[key], other._seen[key] = table.copy(), self._seen[key]
        return other

    def keep(self, mask: Bools) -> Bools:
        """A mask that will be asked for again: its tables are kept as those of all nodes are."""
        self._masks[id(mask)] = mask
        return mask

    def keeps(self, mask: Bools) -> bool:
        return id(mask) in self._masks

    def table(self, shape: Shape, mask: Bools | None = None) -> Table:
        """The table of a shape as of now, on the nodes of a mask that the room keeps. It is the room's own: it changes
        with later calls."""
        key = (shape, 0 if mask is None else id(mask))
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = self._inherited(key) or self._counted(key)
        if self._seen[key] < len(self._taken):
            found = self._catch_up(key, found)
        return found

    def devices(self, position: int) -> list[Device]:
        """What is free on a node, in thought."""
        if position not in self._lists:
            given = (*(self._gift(position) if self._gift else ()), *self._owed.pop(position, ()))
            self._lists[position] = [*self._devices_of(self.fabric.nodes[position]), *given]
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
        given = tuple(devices)
        self.free.cpu[position] += cpu_milli
        self.free.memory[position] += memory
        if position in self._lists:
            self._lists[position] = [*self._lists[position], *given]
        elif given:
            self._owed[position] = (*self._owed.get(position, ()), *given)
        for kind in {device.type for device in given}:
            if kind not in self._columns:
                self._columns[kind] = np.zeros_like(self.free.cpu)
            self._columns[kind][position] += sum(device.type == kind for device in given)
        self._taken.append(position)

    def give_many(
        self,
        positions: Ints,
        cpu_milli: Ints,
        memory: Ints,
        counts: Mapping[str, Ints],
        devices: Callable[[int], list[Device]],
    ) -> None:
        """What many workers hold becomes free in thought, once for a room. `counts` are their devices by kind,
        `devices` those of all of them on a node."""
        assert self._gift is None, "what many hold was given already"
        np.add.at(self.free.cpu, positions, cpu_milli)
        np.add.at(self.free.memory, positions, memory)
        for kind, amounts in counts.items():
            if kind not in self._columns:
                self._columns[kind] = np.zeros_like(self.free.cpu)
            np.add.at(self._columns[kind], positions, amounts)
        touched = np.unique(positions).tolist()
        if self._lists:
            for position in self._lists.keys() & set(touched):
                self._lists[position] = [*self._lists[position], *devices(position)]
        self._gift = devices
        self._taken += touched

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

    def _inherited(self, key: Key) -> Table | None:
        """The parent's table, where it does not know more than this room."""
        parent = self._parent
        found = parent._tables.get(key) if parent is not None else None
        if parent is None or found is None or parent._seen[key] > self._born:
            return None
        self._seen[key] = parent._seen[key]
        return found.copy()

    def _counted(self, key: Key) -> Table:
        shape, mask = key
        self._seen[key] = len(self._taken)
        units = self._units(shape)
        return tabulate(self.fabric, np.where(self._masks[mask], units, 0) if mask else units, shape.max_per_node)

    def _catch_up(self, key: Key, table: Table) -> Table:
        """Carry what has changed at some nodes into every level of a table."""
        shape, mask = key
        rows = dict.fromkeys(self._taken[self._seen[key] :])
        if len(rows) * 4 > len(self.fabric.nodes) > FEW:
            table = self._tables[key] = self._counted(key)
            return table
        self._seen[key] = len(self._taken)
        if len(rows) <= FEW:
            limits = needs(self.free, shape)
            for position in rows:
                allowed = not mask or self._masks[mask][position]
                table.put(self.fabric, position, self._unit(shape, position, limits) if allowed else 0)
            return table
        many = np.fromiter(rows, dtype=np.int64, count=len(rows))
        units = self._units(shape, many)
        table.put_many(self.fabric, many, np.where(self._masks[mask][many], units, 0) if mask else units)
        return table

    def _unit(self, shape: Shape, position: int, limits: list[tuple[str, Ints, int]]) -> int:
        """How many workers fit on one node, out of what they need of each resource."""
        if not limits:
            return shape.max_per_node
        most = min(int(column[position]) // need for _, column, need in limits)
        if most > 0 and self._intricate(shape):
            return int(self._inside_nodes(shape, np.array([most]), np.array([position]))[0])
        return most

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
