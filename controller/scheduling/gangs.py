"""Gangs of several shapes: a leader and its workers, prefill and decode, groups that each need a domain of their own.

Greedy in every order of the shapes first, since that is quick and mostly right; then an exact search over the nodes
of a domain, or over the domains of equal groups, up to a bound. Whether the bound was hit is part of the answer.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice, permutations

import numpy as np
from msgspec import Struct

from controller.scheduling.fabric import Bools, Fabric
from controller.scheduling.placement import eligible, pick, usable
from controller.scheduling.room import Room, Shape
from controller.scheduling.tables import Table, masked
from controller.scheduling.types import GangRequest, Role, WorkerPlacement

ORDERS = 24
DOMAINS = 64
STEPS = 200_000
SETS = 256
"""Of domains of one size that are looked at for a gang to lie in fewer."""
TRIES = 16
"""Of such sets that are tried."""

Spread = dict[int, int]


class Answer(Struct, frozen=True):
    """Where each role lies (None: nowhere), and whether a bound ended the search."""

    spreads: tuple[Spread, ...] | None
    bounded: bool = False


def shapes_of(request: GangRequest) -> tuple[Shape, ...]:
    return tuple(Shape(r.device, r.cpu_milli, r.memory, request.max_per_node) for r in request.roles)


def choose_roles(room: Room, request: GangRequest, mask: Bools | None = None) -> Answer:
    """All roles of a gang, or nothing; in the lowest level whose some domain holds them."""
    fabric, shapes = room.fabric, shapes_of(request)
    required = fabric.depth(request.required_level)
    tables = [usable(room, request, shape, mask) for shape in shapes]
    bounded = False
    for depth in range(len(fabric.levels) - 1, required - 1, -1):
        fit = eligible(fabric, depth, (required,))
        for table, role in zip(tables, request.roles, strict=True):
            fit = fit & (table.slots[depth] >= role.workers)
        candidates = np.flatnonzero(fit)
        holes = np.sum([table.units[depth][candidates] for table in tables], axis=0)
        ordered = candidates[np.argsort(holes, kind="stable")][:DOMAINS].tolist()
        for domain in sorted(ordered, key=lambda domain: _leaves(fabric, request, tables, depth, domain)):
            inside = fabric.levels[depth].of == domain
            inside = inside if mask is None else inside & mask
            answer = _inside(room, request, shapes, inside)
            if answer.spreads is not None:
                return Answer(_narrowed(room, request, shapes, inside, depth, answer.spreads), bounded)
            bounded |= answer.bounded
        bounded |= len(candidates) > DOMAINS
    return Answer(None, bounded)


def _leaves(fabric: Fabric, request: GangRequest, tables: Sequence[Table], depth: int, domain: int) -> int:
    """Innermost domains that the roles need at least in this domain."""
    inner = len(fabric.levels) - 2
    if depth >= inner:
        return 1
    level = fabric.levels[inner]
    mine = np.flatnonzero(fabric.levels[depth].of[level.starts] == domain)
    least = 1
    for table, role in zip(tables, request.roles, strict=True):
        sums = np.cumsum(-np.sort(-table.slots[inner][mine]))
        least = max(least, int(np.searchsorted(sums, role.workers)) + 1)
    return least


def _narrowed(
    room: Room, request: GangRequest, shapes: tuple[Shape, ...], mask: Bools, depth: int, spreads: tuple[Spread, ...]
) -> tuple[Spread, ...]:
    """The same gang on fewer domains of each level below `depth`, the outermost first, as far as a few tries tell."""
    fabric, tries = room.fabric, TRIES
    for level in fabric.levels[depth + 1 : -1]:
        used = len({int(level.of[position]) for spread in spreads for position in spread})
        tables = [masked(fabric, usable(room, request, shape), mask) for shape in shapes]
        rooms = np.array([level.sums(table.slots[-1]) for table in tables])
        holes = np.sum([level.sums(table.units[-1]) for table in tables], axis=0)
        wanted = np.array([role.workers for role in request.roles])
        order = np.argsort(-holes, kind="stable")[: int((holes > 0).sum())]
        best = np.cumsum(-np.sort(-rooms, axis=1), axis=1)
        least = int(max(np.searchsorted(row, need) for row, need in zip(best, wanted, strict=True))) + 1
        for count in range(least, used):
            found = None
            for chosen in islice(combinations(order.tolist(), count), SETS):
                if tries and (rooms[:, chosen].sum(axis=1) >= wanted).all():
                    tries -= 1
                    inside = mask & np.isin(level.of, chosen)
                    found = _greedily(room, request, shapes, inside)
                    if found is not None:
                        spreads, mask = found, inside
                        break
            if found is not None or not tries:
                break
        else:
            mask = mask & np.isin(level.of, [level.of[position] for spread in spreads for position in spread])
    return spreads


def take_roles(room: Room, request: GangRequest, spreads: Iterable[Spread]) -> tuple[WorkerPlacement, ...]:
    """Take what was chosen, role after role."""
    placed: list[WorkerPlacement] = []
    for role, shape, spread in zip(request.roles, shapes_of(request), spreads, strict=True):
        placed += room.take(shape, spread, role.name)
    return tuple(placed)


def _inside(room: Room, request: GangRequest, shapes: tuple[Shape, ...], mask: Bools) -> Answer:
    """All roles on these nodes."""
    spreads = _greedily(room, request, shapes, mask)
    if spreads is not None:
        return Answer(spreads)
    if any(role.required_level for role in request.roles):
        return _groups(room, request, shapes, mask)
    return _exactly(room, request, shapes, mask)


def _greedily(room: Room, request: GangRequest, shapes: tuple[Shape, ...], mask: Bools) -> tuple[Spread, ...] | None:
    """Role after role, in the first order in which that goes."""
    for order in islice(permutations(range(len(shapes))), ORDERS):
        spreads = _one_by_one(room, request, shapes, mask, order)
        if spreads is not None:
            return spreads
    return None


def _one_by_one(
    room: Room, request: GangRequest, shapes: tuple[Shape, ...], mask: Bools, order: Iterable[int]
) -> tuple[Spread, ...] | None:
    trial, found = room.copy(), dict[int, Spread]()
    for number in order:
        role, shape = request.roles[number], shapes[number]
        table = usable(trial, request, shape, mask)
        chosen = pick(room.fabric, table, role.workers, room.fabric.depth(role.required_level))
        if chosen is None:
            return None
        trial.take(shape, chosen)
        found[number] = chosen
    return tuple(found[number] for number in range(len(shapes)))


def _groups(room: Room, request: GangRequest, shapes: tuple[Shape, ...], mask: Bools) -> Answer:
    """Groups of one shape with one level each: which domain holds which groups is packing of whole numbers."""
    levels = {role.required_level for role in request.roles}
    if len(set(shapes)) > 1 or len(levels) > 1:
        return Answer(None, bounded=True)
    fabric, table = room.fabric, usable(room, request, shapes[0], mask)
    depth = fabric.depth(levels.pop())
    level = fabric.levels[depth]
    rooms = {int(d): int(table.slots[depth][d]) for d in np.flatnonzero(level.labelled & (table.slots[depth] > 0))}
    sizes = sorted(((role.workers, number) for number, role in enumerate(request.roles)), reverse=True)
    steps = iter(range(STEPS))
    homes = _pack(rooms, sizes, steps)
    if homes is None:
        return Answer(None, bounded=next(steps, None) is None)
    trial, spreads = room.copy(), dict[int, Spread]()
    for size, number in sizes:
        near = masked(fabric, usable(trial, request, shapes[0], mask), level.of == homes[number])
        chosen = pick(fabric, near, size, depth)
        if chosen is None:
            return Answer(None)
        trial.take(shapes[0], chosen)
        spreads[number] = chosen
    return Answer(tuple(spreads[number] for number in range(len(sizes))))


def _pack(rooms: dict[int, int], sizes: list[tuple[int, int]], steps: Iterator[int]) -> dict[int, int] | None:
    """A domain for each size, largest first into the tightest; None when there is none or the steps are used up."""
    if not sizes:
        return {}
    (size, number), rest = sizes[0], sizes[1:]
    tried: set[int] = set()
    for domain in sorted(rooms, key=lambda domain: (rooms[domain], domain)):
        if rooms[domain] < size or rooms[domain] in tried:
            continue
        if next(steps, None) is None:
            return None
        tried.add(rooms[domain])
        found = _pack({**rooms, domain: rooms[domain] - size}, rest, steps)
        if found is not None:
            return {**found, number: domain}
    return None


def _exactly(room: Room, request: GangRequest, shapes: tuple[Shape, ...], mask: Bools) -> Answer:
    """Which counts of each role can be on the nodes so far, node after node, with the fewest nodes used."""
    wanted = tuple(role.workers for role in request.roles)
    allowed = mask.copy()
    allowed[[room.fabric.positions[node] for node in request.excluded if node in room.fabric.positions]] = False
    states: dict[tuple[int, ...], tuple[int, dict[int, tuple[int, ...]]]] = {tuple(0 for _ in wanted): (0, {})}
    steps = 0
    for position in np.flatnonzero(allowed):
        mixes = list(_mixes(room, request, shapes, int(position), wanted))
        steps += len(states) * len(mixes)
        if steps > STEPS:
            return Answer(None, bounded=True)
        reached = dict(states)
        for state, (used, held) in states.items():
            for mix in mixes:
                after = tuple(min(a + b, limit) for a, b, limit in zip(state, mix, wanted, strict=True))
                part = tuple(b - a for a, b in zip(state, after, strict=True))
                if any(part) and (after not in reached or used + 1 < reached[after][0]):
                    reached[after] = (used + 1, {**held, int(position): part})
        states = reached
    if wanted not in states:
        return Answer(None)
    held = states[wanted][1]
    return Answer(tuple({p: part[number] for p, part in held.items() if part[number]} for number in range(len(wanted))))


def _mixes(
    room: Room, request: GangRequest, shapes: tuple[Shape, ...], position: int, wanted: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """Every count of each role that one node holds together."""

    def fits(mix: tuple[int, ...]) -> bool:
        if max(mix) > request.max_per_node:
            return False
        cpu = sum(shape.cpu_milli * count for shape, count in zip(shapes, mix, strict=True))
        memory = sum(shape.memory * count for shape, count in zip(shapes, mix, strict=True))
        devices: dict[str, int] = {}
        for shape, count in zip(shapes, mix, strict=True):
            if shape.device is not None:
                devices[shape.device.type] = devices.get(shape.device.type, 0) + shape.device.count * count
        free = room.free
        return (
            cpu <= free.cpu[position]
            and memory <= free.memory[position]
            and all(count <= free.kind(kind)[position] for kind, count in devices.items())
        )

    def extend(mix: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        number = len(mix)
        if number == len(wanted):
            if any(mix):
                yield mix
            return
        for count in range(wanted[number] + 1):
            longer = (*mix, count)
            if not fits((*longer, *(0 for _ in range(len(wanted) - number - 1)))):
                break
            yield from extend(longer)

    return extend(())


def describe(roles: Iterable[Role]) -> str:
    return ", ".join(f"{role.workers} {role.name}" for role in roles)
