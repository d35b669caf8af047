"""Where a gang of one shape lies: the lowest level of the fabric with a domain that holds it whole; of those one in
which it needs the fewest leaves, the tightest; inside it the fewest children. What is already broken is used first, so that large holes stay whole.

Exact: a gang that fits somewhere within its required level is never refused. With segments a domain is counted in
whole segments. A gang that lost a part of itself keeps what is left where that can be.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from controller.scheduling.devices import fewest
from controller.scheduling.fabric import Bools, Fabric, Ints
from controller.scheduling.room import Room, Shape
from controller.scheduling.spread import spread
from controller.scheduling.tables import NOTHING, Table, lessened, masked, without
from controller.scheduling.types import GangRequest, Segment, WorkerPlacement

RAIL_SETS = 512


class Manner(Struct, frozen=True):
    """How a gang is spread: in whole segments of a level (its depth), evenly over the domains that it needs."""

    size: int = 1
    depth: int = 0
    balanced: bool = False


PACKED = Manner()


def manner(fabric: Fabric, request: GangRequest) -> Manner:
    segment = request.segment
    if segment is None:
        return Manner(balanced=True) if request.balanced else PACKED
    return Manner(segment.size, fabric.depth(segment.level), request.balanced)


def choose(
    room: Room, request: GangRequest, shape: Shape, workers: int, mask: Bools | None = None, keep: bool = False
) -> dict[int, int] | None:
    """Workers at each position for this kind, or None; within `mask` where there is one. The preferred level comes
    before the required one. With `keep`: only so that the gang stays on its preferred nodes as far as it can.
    Raises KeyError when the fabric has no such level."""
    fabric = room.fabric
    required, wanted = fabric.depth(request.required_level), fabric.depth(request.preferred_level)
    table = usable(room, request, shape, mask)
    if table.slots[0][0] < workers:
        return None
    how = manner(fabric, request)
    if request.segment is not None and workers % request.segment.size:
        return None if keep else _with_remainder(fabric, table, workers, (required, wanted), how)
    if keep:
        return _keeping(fabric, table, request, workers, required, how)
    for bounds in ((required, wanted), (required,)) if wanted > required else ((required,),):
        chosen = pick(fabric, table, workers, *bounds, how=how)
        if chosen is not None:
            return chosen
    return None


def could(room: Room, request: GangRequest, shape: Shape, workers: int, mask: Bools | None = None) -> bool:
    """Whether `choose` finds something."""
    if request.segment is not None:
        return choose(room, request, shape, workers, mask) is not None
    return fits(room.fabric, usable(room, request, shape, mask), workers, room.fabric.depth(request.required_level))


def _with_remainder(
    fabric: Fabric, table: Table, workers: int, bounds: tuple[int, int], how: Manner
) -> dict[int, int] | None:
    """Whole segments, and what is left over in one domain of their level: as near to them as can be, or in whichever domain
    leaves room for them."""
    required, wanted = bounds
    rest = workers % how.size
    for bound in (max(required, wanted), required) if wanted > required else (required,):
        whole = pick(fabric, table, workers - rest, bound, how=how) if workers > rest else {}
        if whole:
            left, place = lessened(fabric, table, whole), _domain(fabric, bound, whole)
            near = None if place is None else masked(fabric, left, fabric.levels[bound].of == place)
            last = pick(fabric, near, rest, how.depth) if near is not None else None
            if last is not None:
                return dict(Counter(whole) + Counter(last))
        level = fabric.levels[how.depth]
        rooms = np.where(level.labelled, table.slots[how.depth], 0)
        fit = np.flatnonzero(rooms >= rest)
        for domain in sorted(fit.tolist(), key=lambda domain: (rooms[domain] % how.size < rest, rooms[domain], domain)):
            last = pick(fabric, masked(fabric, table, level.of == domain), rest, how.depth)
            place = _domain(fabric, bound, last) if last is not None else None
            if last is None or place is None or not fabric.levels[bound].labelled[place]:
                continue
            left = masked(fabric, lessened(fabric, table, last), fabric.levels[bound].of == place)
            whole = pick(fabric, left, workers - rest, bound, how=how) if workers > rest else {}
            if whole is not None:
                return dict(Counter(whole) + Counter(last))
    return None


def ranked(fabric: Fabric, request: GangRequest, workers: Sequence[WorkerPlacement]) -> tuple[WorkerPlacement, ...]:
    """The rank order of a gang with a remainder: the domain that holds it comes last."""
    segment = request.segment
    if segment is None or not len(workers) % segment.size:
        return tuple(workers)
    level = fabric.levels[fabric.depth(segment.level)]
    domains = [int(level.of[fabric.positions[worker.node]]) for worker in workers]
    held = Counter(domains)
    order = sorted(range(len(workers)), key=lambda rank: bool(held[domains[rank]] % segment.size))
    return tuple(workers[rank] for rank in order)


def usable(room: Room, request: GangRequest, shape: Shape, mask: Bools | None = None) -> Table:
    """The table of a shape without the nodes that the gang may not use."""
    if mask is None or room.keeps(mask):
        return without(room.fabric, room.table(shape, mask), request.excluded)
    return masked(room.fabric, without(room.fabric, room.table(shape), request.excluded), mask)


def rail_shapes(room: Room, shape: Shape) -> list[Shape]:
    """The shape itself; with matched rails one shape for each set of rails that some node has free, those that the
    most nodes have first."""
    wish = shape.device
    if wish is None or not wish.rails:
        return [shape]
    sets: Counter[tuple[int, ...]] = Counter()
    for position in np.flatnonzero(room.free.kind(wish.type) >= wish.count):
        rails = sorted({d.nic for d in room.devices(int(position)) if d.type == wish.type and d.nic is not None})
        for number, chosen in enumerate(combinations(rails, wish.count)):
            if number == RAIL_SETS:
                break
            sets[chosen] += 1
    return [replace(shape, rails=rails) for rails in sorted(sets, key=lambda rails: (-sets[rails], rails))]


def pick(fabric: Fabric, table: Table, workers: int, *bounds: int, how: Manner = PACKED) -> dict[int, int] | None:
    """The same out of one table. `bounds` are the depths of levels of each of which one domain must hold them all."""
    rooms, need, deepest = table.slots, workers, len(fabric.levels) - 1
    if how.depth:
        rooms, need, deepest = in_segments(fabric, table, how), workers // how.size, how.depth
        if workers % how.size:
            return None
    for depth in range(deepest, max(bounds) - 1, -1):
        if depth == len(fabric.levels) - 1:
            node = _tightest_node(fabric, table, need, bounds)
            if node is not None:
                return {node: need}
            continue
        candidates = np.flatnonzero(eligible(fabric, depth, bounds) & (rooms[depth] >= need))
        if len(candidates):
            if len(candidates) > 1 and depth < len(fabric.levels) - 2 and not how.depth:
                candidates = _narrowest(fabric, table, depth, candidates, need)
            domain = _tightest(fabric, table, depth, candidates)
            return _fill(fabric, table, rooms, depth, domain, need, how)
    if max(bounds) > deepest:  # the gang shares less than one of its segments' domains
        return pick(fabric, table, workers, *bounds)
    return None


def fits(fabric: Fabric, table: Table, workers: int, *bounds: int, how: Manner = PACKED) -> bool:
    """Whether `pick` finds something: it does in a domain of the outermost level that serves, if anywhere."""
    if how.depth or max(bounds) == len(fabric.levels) - 1:
        return pick(fabric, table, workers, *bounds, how=how) is not None
    depth = max(bounds)
    return bool((eligible(fabric, depth, bounds) & (table.slots[depth] >= workers)).any())


def in_segments(fabric: Fabric, table: Table, how: Manner) -> tuple[Ints, ...]:
    """How many whole segments each domain holds, for the levels down to the segments' own."""
    level = fabric.levels[how.depth]
    counts = np.where(level.labelled, table.slots[how.depth] // how.size, 0)
    outer = fabric.levels[: how.depth] if fabric.nodes else ()
    sums = (np.bincount(each.of[level.starts], counts, len(each.starts)).astype(np.int64) for each in outer)
    return (*sums, counts)


def best(fabric: Fabric, table: Table, depth: int) -> tuple[str, int]:
    """The labelled domain of a level with the most room, and how many workers fit; ("", 0) without domains."""
    level = fabric.levels[depth]
    rooms = np.where(level.labelled, table.slots[depth], -1)
    if not len(rooms) or rooms.max() < 0:
        return "", 0
    domain = int(rooms.argmax())
    return level.names[domain], int(rooms[domain])


def eligible(fabric: Fabric, depth: int, bounds: tuple[int, ...]) -> Bools:
    """Labelled domains of a level that lie in a labelled domain of each of the bounds."""
    level = fabric.levels[depth]
    outer = tuple(bound for bound in bounds if 0 < bound < depth)
    return level.labelled & fabric.inside(depth, outer) if outer else level.labelled


def _tightest_node(fabric: Fabric, table: Table, need: int, bounds: tuple[int, ...]) -> int | None:
    """The node of the smallest hole, inside a labelled domain of each of the bounds; None where none holds so many."""
    if need > table.most or not fabric.nodes:
        return None
    inner = len(fabric.levels) - 2
    floor = table.floor(fabric, need)
    outer = tuple(bound for bound in bounds if 0 < bound <= inner)
    if not outer and (known := table.tightest.get(need)) is not None:
        return known
    if outer:
        floor = np.where(fabric.inside(inner, outer), floor, NOTHING)
    least = floor.min()
    if least == NOTHING:
        return None
    if not outer:
        table.lows[need] = int(least)
    level = fabric.levels[inner]
    domain = _tightest(fabric, table, inner, np.flatnonzero(floor == least))
    first = int(level.starts[domain])
    inside = slice(first, int(level.ends[domain]))
    return first + int(((table.units[-1][inside] == least) & (table.slots[-1][inside] >= need)).argmax())


def _narrowest(fabric: Fabric, table: Table, depth: int, candidates: Ints, need: int) -> Ints:
    """Those of some domains in which the fewest innermost domains hold so many."""
    inner = len(fabric.levels) - 2
    level, rooms = fabric.levels[inner], table.slots[inner]
    owner = fabric.levels[depth].of[level.starts]
    mine = np.flatnonzero(np.isin(owner, candidates) & (rooms > 0))
    order = mine[np.lexsort((-rooms[mine], owner[mine]))]
    firsts = np.searchsorted(owner[order], candidates)
    sums = np.cumsum(rooms[order])
    before = np.repeat(np.concatenate(([0], sums))[firsts], np.diff([*firsts, len(order)]))
    wanted = np.add.reduceat((sums - before < need).astype(np.int64), firsts)
    narrowest: Ints = candidates[wanted == wanted.min()]
    return narrowest


def _tightest(fabric: Fabric, table: Table, depth: int, candidates: Ints) -> int:
    """The smallest hole; then the one in the smallest hole of the next level out, and so on; then by name."""
    heads = fabric.levels[depth].starts[candidates]
    for outer in range(depth, 0, -1):
        if len(candidates) == 1:
            break
        holes = table.units[outer][fabric.levels[outer].of[heads]]
        keep = holes == holes.min()
        candidates, heads = candidates[keep], heads[keep]
    return int(candidates[0])


def _fill(
    fabric: Fabric, table: Table, rooms: tuple[Ints, ...], depth: int, domain: int, need: int, how: Manner
) -> dict[int, int]:
    """Spread over the fewest children, and theirs, down to the nodes. `need` is in segments above their level."""
    if how.depth and depth == how.depth:
        return _fill(fabric, table, table.slots, depth, domain, need * how.size, replace(how, size=1, depth=0))
    if depth == len(fabric.levels) - 1:
        return {domain: need}
    children = fabric.children(depth, domain)
    slots, units = rooms[depth + 1][children], table.units[depth + 1][children]
    order = np.lexsort((units, slots))
    order = order[slots[order] > 0]
    sizes = slots[order].tolist()
    parts = (even(sizes, need) if how.balanced else None) or _apart(
        fabric, rooms, depth + 1, children, order, need, how
    )
    inner = how if sum(part > 0 for part in parts) == 1 else replace(how, balanced=False)
    placed: dict[int, int] = {}
    for child, part in zip(order, parts, strict=True):
        if part:
            placed |= _fill(fabric, table, rooms, depth + 1, children.start + int(child), part, inner)
    return placed


def _apart(
    fabric: Fabric, rooms: tuple[Ints, ...], depth: int, children: slice, order: Ints, need: int, how: Manner
) -> list[int]:
    """Parts for the children in this order: the fewest, and where leaves lie below them the fewest of those."""
    sizes = rooms[depth][children][order].tolist()
    inner = len(fabric.levels) - 2
    if how.depth or depth >= inner or sizes[-1] >= need:
        return fewest(sizes, need)
    below = fabric.levels[inner]
    owner = fabric.levels[depth].of[below.starts]
    leaves = [rooms[inner][owner == children.start + int(child)] for child in order]
    return spread(sizes, leaves, need)


def even(rooms: list[int], need: int) -> list[int] | None:
    """Parts that differ by one at most, from the fewest rooms (ascending) that allow it; the tightest of them.
    None when no number of rooms does."""
    size = len(rooms)
    least = sum(part > 0 for part in fewest(rooms, need))
    for count in range(least, min(size, need) + 1):
        low, larger = divmod(need, count)
        fit = [place for place, room in enumerate(rooms) if room >= low]
        roomy = [place for place in fit if rooms[place] > low]
        if len(fit) < count or len(roomy) < larger:
            continue
        high = set(roomy[:larger])
        chosen = [place for place in fit if place not in high][: count - larger]
        return [low + 1 if place in high else low if place in chosen else 0 for place in range(size)]
    return None


def _keeping(
    fabric: Fabric, table: Table, request: GangRequest, workers: int, required: int, how: Manner
) -> dict[int, int] | None:
    """The gang with as much of it as can be on its preferred nodes, and what is missing as near to them as can be.
    None when the levels that it must share do not allow that."""
    kept = _survivors(fabric, table, request, workers)
    home = _domain(fabric, required, kept)
    if home is None or not fabric.levels[required].labelled[home]:
        return None
    left, missing = kept, workers - sum(kept.values())
    whole: dict[int, int] = {}
    if how.depth:
        mended = _mend_segments(fabric, table, kept, how)
        left, whole = mended
        missing = workers - sum(left.values()) - sum(whole.values())
        left = {**left, **{position: left.get(position, 0) + count for position, count in whole.items()}}
    if not missing:
        return left
    rest = lessened(fabric, table, left)
    for depth in range(len(fabric.levels) - 1, required - 1, -1):
        domain = _domain(fabric, depth, left)
        if domain is None or (depth and not fabric.levels[depth].labelled[domain]):
            continue
        near = masked(fabric, rest, fabric.levels[depth].of == domain)
        added = pick(fabric, near, missing, 0, how=replace(how, balanced=False))
        if added is not None:
            return dict(Counter(left) + Counter(added))
    return None


def _survivors(fabric: Fabric, table: Table, request: GangRequest, workers: int) -> dict[int, int]:
    """Workers that stay, by position. Where nodes are named more than once, that is how many lay there."""
    named = Counter(fabric.positions[node] for node in request.preferred if node in fabric.positions)
    several = any(count > 1 for count in named.values()) or len(request.preferred) == workers
    kept: dict[int, int] = {}
    for position, count in named.items():
        room = min(int(table.slots[-1][position]), workers - sum(kept.values()))
        if part := min(room, count) if several else room:
            kept[position] = part
    return kept


def _domain(fabric: Fabric, depth: int, kept: dict[int, int]) -> int | None:
    """The one domain of a level that holds them all."""
    domains = {int(fabric.levels[depth].of[position]) for position in kept}
    return domains.pop() if len(domains) == 1 else None


def _mend_segments(
    fabric: Fabric, table: Table, kept: dict[int, int], how: Manner
) -> tuple[dict[int, int], dict[int, int]]:
    """(who stays, who joins them) so that every domain of the segments' level holds whole segments. A broken
    segment that its domain cannot mend is given up."""
    level = fabric.levels[how.depth]
    stay, join = dict(kept), dict[int, int]()
    for domain in sorted({int(level.of[position]) for position in kept}):
        mine = [position for position in sorted(kept) if level.of[position] == domain]
        over = sum(kept[position] for position in mine) % how.size
        if not over:
            continue
        lacking = how.size - over
        places = np.arange(level.starts[domain], level.ends[domain])
        spare = table.slots[-1][places] - np.array([kept.get(int(place), 0) for place in places])
        if spare.sum() >= lacking:
            order = np.argsort(spare, kind="stable")
            parts = fewest([int(size) for size in spare[order]], lacking)
            join |= {int(places[place]): part for place, part in zip(order, parts, strict=True) if part}
            continue
        for position in reversed(mine):
            gone = min(stay[position], over)
            over -= gone
            stay[position] -= gone
    return {position: count for position, count in stay.items() if count}, join


def segment_error(request: GangRequest) -> str:
    """Why the segments of a gang cannot be, whatever the cluster; empty when they can."""
    segment: Segment | None = request.segment
    if segment is None:
        return ""
    for _, workers in request.options:
        if workers % segment.size and not segment.remainder:
            return f"{workers} workers are no multiple of segments of {segment.size}"
    return ""
