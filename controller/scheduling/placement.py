"""Where a gang of one shape lies: the lowest level of the fabric with a domain that holds it whole; of those the
tightest; inside it the fewest children. What is already broken is used first, so that large holes stay whole.

Exact: a gang that fits somewhere within its required level is never refused.
"""

import numpy as np

from controller.scheduling.devices import fewest
from controller.scheduling.fabric import Fabric, Ints
from controller.scheduling.room import Table


def choose(fabric: Fabric, table: Table, workers: int, required: int = 0) -> dict[int, int] | None:
    """Workers at each position, or None. `required` is the depth of the level whose domain must hold them all."""
    for depth in range(len(fabric.levels) - 1, required - 1, -1):
        candidates = np.flatnonzero(_eligible(fabric, depth, required) & (table.slots[depth] >= workers))
        if len(candidates):
            return _fill(fabric, table, depth, _tightest(fabric, table, depth, candidates), workers)
    return None


def best(fabric: Fabric, table: Table, depth: int) -> tuple[int, int]:
    """The domain of a level with the most room for this shape, and how many workers fit; (-1, 0) without domains."""
    rooms = np.where(fabric.levels[depth].labelled, table.slots[depth], -1)
    if not len(rooms) or rooms.max() < 0:
        return -1, 0
    domain = int(rooms.argmax())
    return domain, int(rooms[domain])


def _eligible(fabric: Fabric, depth: int, required: int) -> np.ndarray:
    """Labelled domains that lie in a labelled domain of the required level."""
    level, bound = fabric.levels[depth], fabric.levels[required]
    if not len(level.starts):
        return level.labelled
    return level.labelled & bound.labelled[bound.of[level.starts]]


def _tightest(fabric: Fabric, table: Table, depth: int, candidates: Ints) -> int:
    """The smallest hole; then the one in the smallest hole of the next level out, and so on; then by name."""
    heads = fabric.levels[depth].starts[candidates]
    for outer in range(depth, -1, -1):
        holes = table.units[outer][fabric.levels[outer].of[heads]]
        keep = holes == holes.min()
        candidates, heads = candidates[keep], heads[keep]
    return int(candidates[0])


def _fill(fabric: Fabric, table: Table, depth: int, domain: int, workers: int) -> dict[int, int]:
    if depth == len(fabric.levels) - 1:
        return {domain: workers}
    children = fabric.children(depth, domain)
    by_hole = sorted(children, key=lambda child: (table.units[depth + 1][child], child))
    taken = fewest([int(table.slots[depth + 1][child]) for child in by_hole], workers)
    placed: dict[int, int] = {}
    for order, part in taken.items():
        placed |= _fill(fabric, table, depth + 1, by_hole[order], part)
    return placed
