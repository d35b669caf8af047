"""What the controller tells of itself: whether it lives, leads and reaches the database, and what its cycles do."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from msgspec import Struct

from controller.scheduling.types import Plan
from muster.clock import Clock

Role = Literal["starting", "standby", "leader", "cut off"]

STALLED: Final = 60.0
"""Seconds without a sign of life after which the process is given up: a cycle of the largest cluster takes a quarter."""

BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0)
"""Upper bounds of a cycle's seconds."""

DECISIONS: Final = ("starts", "evictions", "shrinks", "migrations", "growths", "dropped")


class Health(Struct, frozen=True):
    """`silent`: seconds since the last sign of life. Ready: the database answers, leading or standing by."""

    role: Role
    epoch: int
    silent: float
    alive: bool
    ready: bool


class Timing:
    """A histogram of seconds. `counts` has one more than there are bounds: what is above the last."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.sum += seconds
        self.counts[next((i for i, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))] += 1


class Pulse:
    """Written by the loop's thread, read by whoever asks."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._seen = clock.boottime()
        self._role: Role = "starting"
        self._epoch = 0
        self.cycles, self.plans = Timing(), Timing()
        self.decisions = dict.fromkeys(DECISIONS, 0)

    def beat(self, role: Role, epoch: int = 0) -> None:
        """The process is here and does its work. `epoch` of the leader."""
        with self._lock:
            self._seen, self._role, self._epoch = self._clock.boottime(), role, epoch

    def health(self) -> Health:
        with self._lock:
            silent = self._clock.boottime() - self._seen
            alive = silent < STALLED
            return Health(self._role, self._epoch, silent, alive, alive and self._role in ("leader", "standby"))

    @contextmanager
    def timed(self, what: Timing) -> Iterator[None]:
        began = self._clock.boottime()
        try:
            yield
        finally:
            what.add(self._clock.boottime() - began)

    def decided(self, plan: Plan) -> None:
        """What a plan holds; what of it was then overtaken by the world is `dropped` as well."""
        shrinks = sum(bool(victim.workers) for eviction in plan.evictions for victim in eviction.victims)
        victims = sum(len(eviction.victims) for eviction in plan.evictions)
        counts = (len(plan.groups), victims - shrinks, shrinks, len(plan.migrations), len(plan.growths))
        for what, count in zip(DECISIONS, counts, strict=False):
            self.decisions[what] += count

    def dropped(self) -> None:
        self.decisions["dropped"] += 1
