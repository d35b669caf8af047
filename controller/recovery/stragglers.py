"""Ranks that are slow again and again, and ranks that stay behind, from what each reports. Pure.

Where ranks report the seconds of their own work, these are compared; else the times between their own steps, which tell
apart only ranks that do not wait for each other at every step.
"""

import itertools
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Final

from msgspec import Struct

from muster.protocol import ProgressPoint

ROUNDS: Final = 3
"""Comparisons in a row, on steps that do not overlap, that must all name the same rank."""
STEPS: Final = 5
"""Steps of every rank in one comparison."""
FACTOR: Final = 1.5
"""Times the median of the other ranks."""
LEAST: Final = 0.005
"""Seconds by which it must be slower, so that no noise of the clock counts."""


class Straggler(Struct, frozen=True):
    """`seconds` of one of its steps, where the `others` need less; `times`: how often that was found."""

    rank: int
    seconds: float
    others: float
    times: int


def straggler(points: Sequence[ProgressPoint]) -> Straggler | None:
    """The one rank that is slowest by far in each of the last comparisons. `points`: oldest first."""
    series = _durations(points)
    if len(series) < 2:
        return None
    rows = min(len(one) for one in series.values())
    if rows < ROUNDS * STEPS:
        return None
    found = [_slowest({r: one[len(one) - n - STEPS : len(one) - n] for r, one in series.items()})
             for n in range(0, ROUNDS * STEPS, STEPS)]  # fmt: skip
    first = found[0]
    if first is None or any(one is None or one[0] != first[0] for one in found):
        return None
    return Straggler(first[0], round(first[1], 4), round(first[2], 4), ROUNDS)


def _durations(points: Sequence[ProgressPoint]) -> dict[int, list[float]]:
    """Of each rank the seconds of its steps, in order; by its own word where it gives it for all."""
    mine: dict[int, list[ProgressPoint]] = defaultdict(list)
    for point in points:
        if point.rank is not None and point.phase.lower() in ("", "train", "training"):
            mine[point.rank].append(point)
    told = all(point.seconds is not None for one in mine.values() for point in one)
    series: dict[int, list[float]] = {}
    for rank, one in mine.items():
        ordered = sorted(one, key=lambda point: point.step)
        if told:
            series[rank] = [point.seconds or 0.0 for point in ordered]
        else:
            series[rank] = [
                (b.at - a.at) / (b.step - a.step) for a, b in itertools.pairwise(ordered) if b.step > a.step
            ]
    return series


def _slowest(window: dict[int, list[float]]) -> tuple[int, float, float] | None:
    usual = {rank: median(values) for rank, values in window.items()}
    rank = max(usual, key=lambda one: (usual[one], -one))
    others = median(value for other, value in usual.items() if other != rank)
    slow = usual[rank] > FACTOR * others and usual[rank] - others > LEAST
    return (rank, usual[rank], others) if slow else None
