"""The one seam through which time enters. Pure rooms take `now` as an argument and never import this.

`now()` is UTC seconds since 1970, anchored once at start and advanced by CLOCK_BOOTTIME: a jump of
the wall clock (NTP step, operator's `date -s`) moves no deadline of a running process. `boottime()`
counts suspended time too, which is what leases need (Linux clock_gettime(2), CLOCK_BOOTTIME).
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """`now()`: UTC seconds since the epoch. `boottime()`: seconds on CLOCK_BOOTTIME."""

    def now(self) -> float: ...

    def boottime(self) -> float: ...


class SystemClock:
    """The real clock; immune to wall-clock jumps after construction."""

    def __init__(self) -> None:
        self._boot_anchor = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._wall_anchor = time.time()

    def now(self) -> float:
        return self._wall_anchor + (self.boottime() - self._boot_anchor)

    def boottime(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def agree(self, wall: float) -> float:
        """Go by another machine's UTC seconds from now on, e.g. the database's. By how many seconds that was another."""
        apart = wall - self.now()
        self._boot_anchor, self._wall_anchor = self.boottime(), wall
        return apart

    def drift(self) -> float:
        """Seconds by which the wall clock has moved against this clock since the start (0 when it never jumped)."""
        return time.time() - self.now()


class ManualClock:
    """A clock for tests and simulations: it moves only when told."""

    def __init__(self, now: float = 1_700_000_000.0, boottime: float = 1_000.0) -> None:
        self._now, self._boot = now, boottime

    def now(self) -> float:
        return self._now

    def boottime(self) -> float:
        return self._boot

    def advance(self, seconds: float) -> None:
        self._now += seconds
        self._boot += seconds


def iso(seconds: float | None) -> str | None:
    """UTC seconds as RFC 3339 with milliseconds, e.g. `2026-11-30T12:00:00.250Z`."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_iso(text: str) -> float:
    """The inverse of `iso`. Raises ValueError."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
