"""Which attempts have something due, without looking at all of them: dates are noted when a job is looked at."""

import heapq
from collections.abc import Iterable

from controller.lifecycle import deadline
from controller.picture import Picture
from controller.records import AttemptRecord, JobRecord


class Dates:
    """The deadlines of live attempts, by the loop's picture."""

    def __init__(self, picture: Picture, attended: float = 0.0) -> None:
        """`attended` as `lifecycle.advance` takes it."""
        self._picture, self._attended = picture, attended
        self._heap: list[tuple[float, str]] = []
        self._noted: dict[str, float] = {}  # by attempt, the date that holds
        self._overdue: set[str] = set()

    def note(self, job: JobRecord, attempts: Iterable[AttemptRecord]) -> None:
        """The dates of a job of which something changed."""
        for attempt in attempts:
            at = deadline(job, attempt, self._attended)
            if at is not None and self._noted.get(attempt.uid) != at:
                self._noted[attempt.uid] = at
                heapq.heappush(self._heap, (at, attempt.uid))

    def due(self, now: float) -> set[str]:
        """Jobs whose date has come; again and again until something of them changes."""
        while self._heap and self._heap[0][0] <= now:
            at, uid = heapq.heappop(self._heap)
            if self._noted.get(uid) == at:
                self._overdue.add(uid)
        found = set()
        for uid in list(self._overdue):
            attempt = self._picture.attempts.get(uid)
            job = self._picture.jobs.get(attempt.job_uid) if attempt is not None else None
            at_last = deadline(job, attempt, self._attended) if attempt is not None and job is not None else None
            if attempt is None or at_last is None or at_last > now:
                self._overdue.discard(uid)
                if attempt is None:
                    self._noted.pop(uid, None)
                continue
            found.add(attempt.job_uid)
        return found
