"""How many workers of one shape fit where: one number for each domain of each level of the fabric."""

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct

from controller.scheduling.fabric import Bools, Fabric, Ints

NOTHING = 2**62
"""More than any node holds."""

FEW = 12
"""Nodes up to which each is carried into a table by itself."""


class Table(Struct, frozen=True):
    """`slots` with the gang's limit per node (`most`), `units` without it (how large a hole is). For each level of the
    fabric one number for each domain; the last level is the nodes. `floors` hold, by need, the smallest `units` that
    are no less among the nodes of each innermost domain; `tightest`, where it is known, the one node that has the least
    of these, and `lows` how little that is at most."""

    slots: tuple[Ints, ...]
    units: tuple[Ints, ...]
    most: int
    floors: dict[int, Ints] = {}
    lows: dict[int, int] = {}
    tightest: dict[int, int] = {}

    def floor(self, fabric: Fabric, need: int) -> Ints:
        """The tightest node of each innermost domain that holds so many; NOTHING where none does."""
        found = self.floors.get(need)
        if found is None:
            units, starts = self.units[-1], fabric.levels[-2].starts
            holds = np.where(self.slots[-1] >= need, units, NOTHING)
            found = np.minimum.reduceat(holds, starts) if len(holds) else holds
            self.floors[need] = found
        return found

    def copy(self) -> "Table":
        floors = {need: floor.copy() for need, floor in self.floors.items()}
        slots, units = (tuple(column.copy() for column in columns) for columns in (self.slots, self.units))
        return Table(slots, units, self.most, floors)

    def put(self, fabric: Fabric, position: int, after: int) -> None:
        """So many fit on this node by now."""
        before = int(self.units[-1][position])
        if after == before:
            return
        path, most = fabric.path(position), self.most
        for column, domain in zip(self.units, path, strict=True):
            column[domain] += after - before
        if before < most or after < most:
            change = min(after, most) - min(before, most)
            for column, domain in zip(self.slots, path, strict=True):
                column[domain] += change
        for need, floor in self.floors.items():
            low, fits = floor[path[-2]], need <= min(after, most)
            if fits and after <= low:
                floor[path[-2]] = after
            elif before == low:
                floor[path[-2]] = self._lowest(fabric, path[-2], need)
            if need in self.lows:
                self._tighten(need, position, after if fits else NOTHING)

    def _tighten(self, need: int, position: int, after: int) -> None:
        """A node that has less than all others is the tightest until another has as little, or it is used up."""
        if after < self.lows[need]:
            self.lows[need], self.tightest[need] = after, position
        elif self.tightest.get(need) == position:
            del self.lows[need], self.tightest[need]
        elif after == self.lows[need]:
            self.tightest.pop(need, None)

    def put_many(self, fabric: Fabric, rows: Ints, after: Ints) -> None:
        """The same for many nodes at once."""
        for columns, now in ((self.units, after), (self.slots, np.minimum(after, self.most))):
            change = now - columns[-1][rows]
            for level, column in zip(fabric.levels, columns, strict=True):
                np.add.at(column, level.of[rows], change)
        for known in (self.floors, self.lows, self.tightest):
            known.clear()

    def _lowest(self, fabric: Fabric, domain: int, need: int) -> int:
        inner = fabric.levels[-2]
        inside = slice(inner.starts[domain], inner.ends[domain])
        return int(self.units[-1][inside][self.slots[-1][inside] >= need].min(initial=NOTHING))


def tabulate(fabric: Fabric, units: Ints, max_per_node: int) -> Table:
    return _summed(fabric, np.minimum(units, max_per_node), units, max_per_node)


def _summed(fabric: Fabric, slots: Ints, units: Ints, most: int) -> Table:
    levels = fabric.levels
    return Table(
        (*(level.sums(slots) for level in levels[:-1]), slots),
        (*(level.sums(units) for level in levels[:-1]), units),
        most,
    )


def masked(fabric: Fabric, table: Table, mask: Bools) -> Table:
    """The table of some nodes alone."""
    return _summed(fabric, np.where(mask, table.slots[-1], 0), np.where(mask, table.units[-1], 0), table.most)


def lessened(fabric: Fabric, table: Table, taken: Mapping[int, int]) -> Table:
    """The table after so many workers were taken at each position: no more of the gang than before may lie there."""
    slots, units = table.slots[-1].copy(), table.units[-1].copy()
    for position, count in taken.items():
        slots[position] -= count
        units[position] -= count
    return _summed(fabric, slots, units, table.most)


def without(fabric: Fabric, table: Table, nodes: Iterable[str]) -> Table:
    """The table without these nodes."""
    if not nodes:
        return table
    rows = positions(fabric, nodes)
    if not len(rows):
        return table
    result = table.copy()
    if len(rows) <= FEW:
        for row in rows.tolist():
            result.put(fabric, row, 0)
    else:
        result.put_many(fabric, rows, np.zeros(len(rows), dtype=np.int64))
    return result


def positions(fabric: Fabric, nodes: Iterable[str]) -> Ints:
    """Of those nodes that exist."""
    return np.array(sorted({fabric.positions[name] for name in nodes if name in fabric.positions}), dtype=np.int64)
