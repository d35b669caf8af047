"""Replicas of an LLM server under real requests. A replica holds a number of requests at once; each takes its prefill and its tokens.

The speeds are assumptions, the same for all policies; the trace gives arrivals and token counts. Times are seconds.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from pathlib import Path

from benchmarks.common import BadInput, number, table_of
from controller.scheduling.discipline.autoscale import Sample, Scaling, replicas, wanted

SLOTS, PREFILL, TOKEN, START, LOOK = 16, 4000.0, 0.03, 60.0, 5.0


@dataclass(frozen=True)
class Request:
    at: float
    seconds: float


@dataclass(frozen=True)
class Outcome:
    waits: tuple[float, ...]
    replica_hours: float
    most: int
    changes: int


Policy = Callable[[float, float, int], int]
"""Time, load (requests held and waiting) and replicas; how many replicas there shall be."""


def read(path: Path, factor: float = 1.0) -> list[Request]:
    """The requests in order; `factor` makes them come so many times as fast."""
    found = []
    for line, row in enumerate(table_of(path, ("TIMESTAMP", "ContextTokens", "GeneratedTokens")), 2):
        try:
            at = datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp()
        except ValueError as error:
            raise BadInput(f"{path}:{line}: TIMESTAMP is {row['TIMESTAMP']!r}") from error
        context, generated = (number(path, line, row, column) for column in ("ContextTokens", "GeneratedTokens"))
        found.append((at, context / PREFILL + generated * TOKEN))
    if not found:
        raise BadInput(f"{path}: no request in it")
    found.sort()
    return [Request((at - found[0][0]) / factor, seconds) for at, seconds in found]


def simulate(requests: list[Request], policy: Policy, first: int) -> Outcome:
    """Serve all of them, first come first served; the policy looks every few seconds."""
    ready, starting = first, deque[float]()
    busy: list[float] = []
    waiting: deque[Request] = deque()
    waits, paid, most, changes = [], 0.0, first, 0
    pending = deque(requests)
    now = 0.0
    while pending or waiting or busy:
        after = now + LOOK
        while True:  # what happens until the next look, in order
            at = min(
                busy[0] if busy else after, pending[0].at if pending else after, starting[0] if starting else after
            )
            if at >= after:
                break
            if starting and starting[0] == at:
                starting.popleft()
                ready += 1
            elif busy and busy[0] == at:
                heapq.heappop(busy)
            else:
                waiting.append(pending.popleft())
            while waiting and len(busy) < ready * SLOTS:
                request = waiting.popleft()
                waits.append(at - request.at)
                heapq.heappush(busy, at + request.seconds)
        now = after
        paid += LOOK * (ready + len(starting))
        count = policy(now, len(busy) + len(waiting), ready + len(starting))
        if count != ready + len(starting):
            changes += 1
        while ready + len(starting) < count:
            starting.append(now + START)
        while ready + len(starting) > count and (starting or ready > ceil(len(busy) / SLOTS)):
            if starting:
                starting.pop()
            else:
                ready -= 1  # only one that holds nothing: requests are never cut off
        most = max(most, ready + len(starting))
    return Outcome(tuple(waits), paid / 3600, most, changes)


def fixed(count: int) -> Policy:
    return lambda now, load, current: count


def proportional() -> Policy:
    """The common autoscaler: the ratio of load to target, a tolerance of 10 %, and the most of the last 300 s on the way down."""
    history: deque[tuple[float, int]] = deque()
    looked = 0.0

    def policy(now: float, load: float, current: int) -> int:
        nonlocal looked
        if now - looked < 15:
            return current
        looked = now
        ratio = load / (current * SLOTS * TARGET)
        asked = current if abs(ratio - 1) <= 0.1 else max(1, ceil(current * ratio))
        history.append((now, asked))
        while history[0][0] < now - 300:
            history.popleft()
        return max(count for _, count in history) if asked < current else asked

    return policy


TARGET = 0.7  # of the slots of a replica


def planned() -> Policy:
    """The production autoscaler."""
    scaling = Scaling(target=SLOTS * TARGET, start=START)
    samples: deque[Sample] = deque()

    def policy(now: float, load: float, current: int) -> int:
        samples.append(Sample(now, load))
        samples[-1] = Sample(now, load, wanted(scaling, samples))
        while samples[0].at < now - scaling.window:
            samples.popleft()
        return replicas(scaling, samples)

    return policy
