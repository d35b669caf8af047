"""What queues have used lately: device-seconds that fade, so that starts go first to who had less.

Only starts are ordered by it; whom a gang may evict is decided by what is used now. A use counts half after the queue's `usageHalfLife`.
"""

from collections.abc import Mapping
from math import log

from msgspec.structs import replace

from controller.records import QueueRecord
from muster.quantity import parse_duration


def half_life(queue: QueueRecord) -> float | None:
    """Seconds; None where the queue's past does not count."""
    text = queue.spec.get("usageHalfLife")
    return parse_duration(text) if text else None


def with_use(queue: QueueRecord, used: Mapping[str, float], now: float) -> QueueRecord:
    """The queue's record after so many device-seconds more, by kind, until now."""
    half = half_life(queue)
    if half is None:
        return queue
    faded = _faded(queue, half, now)
    return replace(
        queue, usage={kind: faded.get(kind, 0.0) + used.get(kind, 0.0) for kind in {*faded, *used}}, usage_at=now
    )


def past_share(queue: QueueRecord | None, total: Mapping[str, int], now: float) -> float:
    """The devices that it had in the mean of late, as a part of all there are, by its weight: the largest over the kinds."""
    half = half_life(queue) if queue is not None else None
    if queue is None or half is None:
        return 0.0
    window, weight = half / log(2), max(float(queue.spec.get("weight", 1)), 1e-9)
    faded = _faded(queue, half, now)
    return max((amount / window / max(total.get(kind, 0), 1) / weight for kind, amount in faded.items()), default=0.0)


def _faded(queue: QueueRecord, half: float, now: float) -> dict[str, float]:
    part = 0.5 ** (max(0.0, now - queue.usage_at) / half)
    return {kind: amount * part for kind, amount in queue.usage.items()}
