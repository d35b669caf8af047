"""One gang that runs: who holds what, and until when."""

from collections.abc import Iterable

from msgspec import Struct

from controller.records import AttemptRecord, CheckpointRecord, WorkerRecord
from controller.scheduling.types import GangRequest
from muster.states import AttemptPhase


class Crew(Struct, frozen=True, kw_only=True, gc=False):
    """The live workers of a job in rank order. `leaving`: it was told to go already."""

    request: GangRequest
    attempt: AttemptRecord
    workers: tuple[WorkerRecord, ...]
    leaving: bool
    saved: float = 0.0
    """When its newest complete checkpoint was written."""

    @property
    def since(self) -> float:
        """Since when it holds its place, UTC seconds."""
        return self.attempt.running_at or self.attempt.placed_at

    @property
    def unsaved(self) -> float:
        """Since when its work would be lost with it, UTC seconds."""
        return max(self.since, self.saved) if self.request.saves else self.since

    @property
    def ends(self) -> float | None:
        """When its limit ends it at the latest."""
        return None if self.request.limit is None else self.since + self.request.limit

    @property
    def size(self) -> int:
        """Workers that it has, those that have ended well among them."""
        return len(self.workers) + self.attempt.succeeded

    @property
    def surplus(self) -> int:
        """Workers that an elastic gang can do without, whether it sheds them live or begins anew from a checkpoint."""
        if not (self.request.live or self.request.saves):
            return 0
        staying = self.attempt.succeeded + sum(worker.desired != "stop" for worker in self.workers)
        return 0 if self.request.minimum is None else max(0, staying - self.request.minimum)


def crew_of(
    request: GangRequest, attempt: AttemptRecord, workers: Iterable[WorkerRecord], saved: CheckpointRecord | None
) -> Crew:
    """The crew of an attempt that has live workers."""
    crew = tuple(sorted(workers, key=lambda worker: (worker.role, worker.index)))
    return Crew(
        request=request,
        attempt=attempt,
        workers=crew,
        saved=saved.created_at if saved is not None else 0.0,
        leaving=attempt.phase is AttemptPhase.STOPPING or all(worker.desired == "stop" for worker in crew),
    )
