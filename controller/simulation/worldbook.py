"""What happened in a world so far."""

from msgspec import Struct


class Tally(Struct):
    """Counts and times since the beginning; times in seconds by job."""

    evicted: list[str] = []
    shrunk: int = 0
    migrations: int = 0
    cycles: int = 0  # plans that decided something
    started: dict[str, list[float]] = {}
    stopped: dict[str, list[float]] = {}
    moved: list[str] = []
    notes: dict[str, list[str]] = {}
