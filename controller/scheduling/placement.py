"""Where a gang of one shape lies: the lowest level of the fabric with a domain that holds it whole; of those the
tightest; inside it the fewest children. What is already broken is used first, so that large holes stay whole.

Exact: a gang that fits somewhere within its required level is never refused.
"""

from collections.abc import Collection

import numpy as np

from controller.scheduling.devices import fewest
from controller.scheduling.fabric import Bools, Fabric, Ints
from controller.scheduling.room import Room, Shape, Table, only, without
from controller.scheduling.types import GangRequest


def choose(
    room: Room, request: GangRequest, shape: Shape, workers: int, nodes: Collection[str] = ()
) -> dict[int, int] | None:
    """Workers at each position for this kind, or None; of `nodes` alone where some are named. The preferred level
    comes before the required one. Raises KeyError when the fabric has no such level."""
    fabric = room.fabric
    required, wanted = fabric.depth(request.required_level), fabric.depth(request.preferred_level)
    table = without(fabric, room.table(shape), request.excluded)
    if nodes and table.slots[0][0] >= workers:
        table = only(fabric, table, shape.max_per_node, nodes)
    if table.slots[0][0] < workers:
        return None
    for bounds in ((required, wanted), (required,)) if wanted > required else ((required,),):
        chosen = pick(fabric, table, workers, *bounds)
        if chosen is not None:
            return chosen
    return None


def pick(fabric: Fabric, table: Table, workers: int, *bounds: int) -> dict[int, int] | None:
    """The same out of one table. `bounds` are the depths of levels of each of which one domain must hold them all."""
    for depth in range(len(fabric.levels) - 1, max(bounds) - 1, -1):
        candidates = np.flatnonzero(_eligible(fabric, depth, bounds) & (table.slots[depth] >= workers))
        if len(candidates):
            return _fill(fabric, table, depth, _tightest(fabric, table, depth, candidates), workers)
    return None


def best(fabric: Fabric, table: Table, depth: int) -> tuple[str, int]:
    """The labelled domain of a level with the most room, and how many workers fit; ("", 0) without domains."""
    level = fabric.levels[depth]
    rooms = np.where(level.labelled, table.slots[depth], -1)
    if not len(rooms) or rooms.max() < 0:
        return "", 0
    domain = int(rooms.argmax())
    return level.names[domain], int(rooms[domain])


def _eligible(fabric: Fabric, depth: int, bounds: tuple[int, ...]) -> Bools:
    """Labelled domains of a level that lie in a labelled domain of each of the bounds."""
    level = fabric.levels[depth]
    eligible = level.labelled
    if fabric.nodes:
        for bound in (fabric.levels[outer] for outer in bounds if 0 < outer < depth):
            eligible = eligible & bound.labelled[bound.of[level.starts]]
    return eligible


def _tightest(fabric: Fabric, table: Table, depth: int, candidates: Ints) -> int:
    """The smallest hole; then the one in the smallest hole of the next level out, and so on; then by name."""
    heads = fabric.levels[depth].starts[candidates]
    for outer in range(depth, -1, -1):
        holes = table.units[outer][fabric.levels[outer].of[heads]]
        keep = holes == holes.min()
        candidates, heads = candidates[keep], heads[keep]
    return int(candidates[0])


def _fill(fabric: Fabric, table: Table, depth: int, domain: int, workers: int) -> dict[int, int]:
    """Spread over the fewest children, and theirs, down to the nodes."""
    if depth == len(fabric.levels) - 1:
        return {domain: workers}
    children = fabric.children(depth, domain)
    slots, units = table.slots[depth + 1][children], table.units[depth + 1][children]
    order = np.lexsort((units, slots))
    order = order[slots[order] > 0]
    placed: dict[int, int] = {}
    for child, part in zip(order, fewest(slots[order].tolist(), workers), strict=True):
        if part:
            placed |= _fill(fabric, table, depth + 1, children.start + int(child), part)
    return placed
