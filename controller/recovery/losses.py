"""What a job's loss tells: that it is not finite, or has jumped far out of its own range. Pure."""

from collections.abc import Sequence
from statistics import median
from typing import Final

KEPT: Final = 32
"""Losses that are remembered, the newest."""
ENOUGH: Final = 8
JUMP: Final = 10.0
"""Times the usual distance from the middle, and at least as far as the middle is from zero."""


def strange(kept: Sequence[float], loss: float | None, bad: str) -> str:
    """What is strange about a loss beside those before it: `nan`, `inf`, `-inf`, `jump`, or nothing."""
    if bad:
        return bad
    if loss is None or len(kept) < ENOUGH:
        return ""
    middle = median(kept)
    spread = median(abs(one - middle) for one in kept)
    return "jump" if loss - middle > max(JUMP * spread, abs(middle)) else ""


def remembered(kept: Sequence[float], loss: float | None) -> tuple[float, ...]:
    return tuple(kept) if loss is None else (*kept, loss)[-KEPT:]
