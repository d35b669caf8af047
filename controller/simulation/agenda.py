"""A virtual clock: what is to happen, in the order of time, and among equal times in the order in which it was noted."""

import heapq
from typing import Generic, TypeVar

T = TypeVar("T")


class Agenda(Generic[T]):
    """Events of a simulation. `now` is the time of the last one taken; nothing can be noted before it."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._heap: list[tuple[float, int, T]] = []
        self._noted = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_at(self) -> float:
        """When the next event is; infinity when there is none."""
        return self._heap[0][0] if self._heap else float("inf")

    def note(self, at: float, event: T) -> None:
        """Raises ValueError for a time that has passed, and for one that is no number."""
        if not at >= self.now:
            raise ValueError(f"an event at {at} cannot be noted at {self.now}")
        heapq.heappush(self._heap, (at, self._noted, event))
        self._noted += 1

    def take(self) -> T:
        """The next event; the clock is then at its time. Raises IndexError when there is none."""
        self.now, _, event = heapq.heappop(self._heap)
        return event
