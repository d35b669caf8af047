"""How many replicas a service shall have: enough for what is asked now and for what is on its way while a replica starts.

Up at once, since a queue hurts at once; down only to the most that was wanted within a window, since a replica that is gone takes
its start to come back. Load is in the units of the target: busy slots, requests in flight, or anything that a replica takes a share of.
"""

from collections.abc import Sequence
from math import ceil, isfinite

from msgspec import Struct


class Scaling(Struct, frozen=True, kw_only=True):
    """What the owner asks for. `target` is the load that one replica shall carry; times are in seconds."""

    target: float
    least: int = 1
    most: int = 1_000_000
    start: float = 60.0  # how long a new replica takes until it serves
    window: float = 300.0  # how far back a want still holds replicas


class Sample(Struct, frozen=True):
    """The load at one time, what waits included, and the replicas wanted for it then."""

    at: float
    load: float
    wanted: int = 0


def wanted(scaling: Scaling, samples: Sequence[Sample]) -> int:
    """Replicas for the load of the last sample, and for the growth since the samples a start ago, going on as long as a
    start takes. Samples are in the order of time. Raises ValueError without a sample and for a load that is no number."""
    if not samples:
        raise ValueError("no load was measured yet")
    last = samples[-1]
    if not isfinite(last.load) or last.load < 0:
        raise ValueError(f"a load of {last.load} is no load")
    recent = [sample.load for sample in samples if last.at - sample.at <= scaling.start]
    growth = max(0.0, last.load - sum(recent) / len(recent))
    return min(scaling.most, max(scaling.least, ceil((last.load + growth) / scaling.target)))


def replicas(scaling: Scaling, samples: Sequence[Sample]) -> int:
    """How many there shall be: the most that was wanted within the window. The last sample holds what is wanted now."""
    last = samples[-1]
    return max(sample.wanted for sample in samples if last.at - sample.at <= scaling.window)
