"""How long to wait after a failure."""

from msgspec import Struct


class Backoff(Struct, frozen=True, kw_only=True):
    """Seconds: `first` after the first failure, twice as much after each further one, never more than `most`."""

    first: float = 2.0
    most: float = 600.0


def delay(backoff: Backoff, failures: int) -> float:
    """Seconds to wait after so many failures, the latest included (at least one)."""
    doublings = min(max(failures, 1) - 1, 64)  # a float has room for these
    return min(backoff.most, backoff.first * 2.0**doublings)
