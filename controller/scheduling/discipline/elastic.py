"""How many devices each elastic job gets: the division of a pool that is worth most, found exactly.

A job of `requested` devices that has r device-seconds left (at its requested size) and runs f(n) times as fast with n
devices as with the requested ones would end in t = r / (requested f(n)) seconds. Its worth is high when it ends soon, and
a job with much left is worth more in all but less a device, so that short jobs go first and long ones do not starve.
A change of size costs a restart, which is why sizes rest until another one is worth it.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

RESTART = 120.0  # seconds that a change of size is held to cost: the stall, and what comes of churn
BRIEF = 60.0  # seconds: no job is expected to end sooner, so that one of which nothing is known is worth a start
BREADTH, LENGTH = 0.25, 0.55  # how much the worth grows with the requested devices, and with the time left


class Claim(Struct, frozen=True, kw_only=True):
    """One live elastic job. `remaining` is in device-seconds at the requested size; `speed[n]` is the throughput with n
    devices relative to the requested count (0: not possible with n); its length gives the most devices."""

    job: str
    requested: int
    remaining: float
    current: int
    speed: tuple[float, ...]


def divide(claims: Sequence[Claim], devices: int, restart: float = RESTART) -> dict[str, int]:
    """Devices of each job, 0 for those that wait. The same claims in any order get the same."""
    claims = sorted(claims, key=lambda claim: claim.job)
    best = np.zeros(devices + 1)
    picks = []
    for claim in claims:
        worth = worths(claim, devices, restart)
        table = np.full((len(worth), devices + 1), -np.inf)
        for count, value in enumerate(worth):
            table[count, count:] = best[: devices + 1 - count] + value
        picks.append(table.argmax(axis=0))
        best = table.max(axis=0)
    left, sizes = devices, {}
    for claim, pick in zip(reversed(claims), reversed(picks), strict=True):
        sizes[claim.job] = int(pick[left])
        left -= sizes[claim.job]
    return sizes


def worths(claim: Claim, devices: int, restart: float = RESTART) -> list[float]:
    """What the job is worth with 0, 1, 2, ... devices; minus infinity where it cannot run."""
    left = max(claim.remaining / claim.requested, BRIEF)  # seconds at the requested size
    weight = claim.requested**BREADTH * left**LENGTH
    values = [0.0]
    for count in range(1, min(devices, len(claim.speed) - 1) + 1):
        if claim.speed[count] <= 0:
            values.append(-np.inf)
            continue
        values.append(weight / (left / claim.speed[count] + (restart if count != claim.current else 0.0)))
    return values
