"""Where a small request shall lie so that what is left stays useful: costs from the shapes seen so far, lower is better.

Two things make free devices useless. *Strand*: a node's CPU can no longer feed its free devices. *Hole*: a rest of a device that no request
of the usual sizes fills. Both are counted against the statistics of the shapes that have asked so far, never against what is to come.
A third term keeps kinds that some requests insist on from those that would take any. All amounts are in thousandths of a device.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

WHOLE = 1000
COMMON = 0.95  # the shapes that count are the commonest that cover this share of the requests seen
DRAWS = 16  # how many requests of the usual sizes a hole may wait for
HOLE, TIGHT, FRESH, PRESSURE, MOST_PRESSURE = 3.0, 0.05, 0.1, 0.3, 5.0

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Shape(Struct, frozen=True, order=True):
    """What one worker asks: CPU, devices of so many thousandths each, and the kinds it accepts (none: any)."""

    cpu: int
    devices: int
    milli: int
    kinds: tuple[str, ...] = ()


class Lessons(Struct, frozen=True):
    """What the shapes seen so far have taught. `ratios` are device thousandths a CPU milli of the common shapes, with
    their `weights`; `holes[r]` is the expected waste of a device with r thousandths free; `pressure` by kind."""

    ratios: Floats
    weights: Floats
    holes: Floats
    pressure: dict[str, float]


def due(seen: int) -> bool:
    """Whether lessons shall be drawn anew after so many requests: often at first, then every 400."""
    return seen in (1, 9, 33, 129) or (seen > 129 and seen % 400 == 0)


def learn(counts: Mapping[Shape, int], free: Mapping[str, int]) -> Lessons:
    """Lessons from how often each shape has asked, and how much of each kind is free (thousandths)."""
    fed = [(shape, count) for shape, count in _common(counts) if shape.devices and shape.cpu]
    demand = np.array([shape.devices * shape.milli for shape, _ in fed], float)
    weights = demand * np.array([count for _, count in fed], float)
    cpu = np.array([shape.cpu for shape, _ in fed], float)
    return Lessons(demand / cpu, weights / max(weights.sum(), 1.0), _holes(counts), _pressure(counts, free))


def strand(lessons: Lessons, cpu: Ints, devices: Ints) -> Floats:
    """Device thousandths of each node that its CPU cannot feed, as the common shapes would use them."""
    left = devices[:, None] - cpu[:, None] * lessons.ratios
    result: Floats = np.maximum(left, 0.0) @ lessons.weights
    return result


def place(
    lessons: Lessons, shape: Shape, cpu: Ints, free: Ints, fresh: Bools, kinds: Iterable[str]
) -> tuple[Floats, Ints]:
    """The cost of each node that has room, and the device a fraction would take there.

    `cpu` is the free CPU of each node, `free` the free thousandths of its devices (nodes x devices, -1 where there is none),
    `fresh` whether all its devices are free, `kinds` their kinds.
    """
    held = np.maximum(free, 0).sum(axis=1)
    wanted = shape.devices * shape.milli
    cost = strand(lessons, cpu - shape.cpu, held - wanted) - strand(lessons, cpu, held)
    cost = cost / WHOLE + TIGHT * (held - wanted) / (8 * WHOLE)
    device = np.zeros(len(cpu), np.int64)
    if wanted:
        pressure = np.array([lessons.pressure.get(kind, 0.0) for kind in kinds])
        cost = cost + FRESH * fresh + PRESSURE * pressure * wanted / WHOLE
    if shape.devices == 1 and shape.milli < WHOLE:
        rest = np.maximum(free - shape.milli, 0)
        waste = np.where(free >= shape.milli, lessons.holes[rest] - lessons.holes[np.maximum(free, 0)], np.inf)
        device = waste.argmin(axis=1)
        cost = cost + HOLE * waste[np.arange(len(waste)), device] / WHOLE
    return cost.round(9), device  # equals are equal, in whatever company they were computed


def _common(counts: Mapping[Shape, int]) -> list[tuple[Shape, int]]:
    """The commonest shapes, kinds aside, that cover most requests."""
    merged: dict[Shape, int] = {}
    for shape, count in counts.items():
        plain = Shape(shape.cpu, shape.devices, shape.milli)
        merged[plain] = merged.get(plain, 0) + count
    covered, total, common = 0, sum(merged.values()), []
    for shape, count in sorted(merged.items(), key=lambda item: (-item[1], item[0])):
        if covered >= COMMON * total:
            break
        common.append((shape, count))
        covered += count
    return common


def _holes(counts: Mapping[Shape, int]) -> Floats:
    """Expected waste by what is free: the largest of the next draws that fits is placed, and so on with the rest."""
    sizes: dict[int, int] = {}
    for shape, count in counts.items():
        if shape.devices == 1 and shape.milli < WHOLE:
            sizes[shape.milli] = sizes.get(shape.milli, 0) + count
    known, total = sorted(sizes), sum(sizes.values())
    holes = np.zeros(WHOLE + 1)
    for free in range(WHOLE):
        fitting = [size for size in known if size <= free]
        above, waste = 0.0, 0.0  # above: the chance that a draw is larger than this size and fits
        for size in reversed(fitting):
            chance = sizes[size] / total
            waste += ((1 - above) ** DRAWS - (1 - above - chance) ** DRAWS) * holes[free - size]
            above += chance
        holes[free] = waste + max(0.0, 1 - above) ** DRAWS * free
    return holes  # a whole free device is no hole


def _pressure(counts: Mapping[Shape, int], free: Mapping[str, int]) -> dict[str, float]:
    """How much more each kind is asked for by name than the cluster is asked for as a whole."""
    named: dict[tuple[str, ...], int] = {}
    total = 0
    for shape, count in counts.items():
        wanted = shape.devices * shape.milli * count
        total += wanted
        if shape.kinds and wanted:
            named[shape.kinds] = named.get(shape.kinds, 0) + wanted
    room = sum(free.values())
    pressure = {}
    for kind in free:
        asked = sum(
            wanted / max(1, sum(free.get(other, 0) for other in kinds))
            for kinds, wanted in named.items()
            if kind in kinds
        )
        pressure[kind] = min(MOST_PRESSURE, asked * room / total) if total else 0.0
    return pressure
