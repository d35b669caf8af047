"""What runs, gang by gang: who holds what, until when, and what would be free without it."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from controller.records import AttemptRecord, WorkerRecord
from controller.scheduling.columns import takes_work
from controller.scheduling.index import ClusterIndex
from controller.scheduling.room import Room
from controller.scheduling.types import GangRequest
from muster.protocol import Device
from muster.states import AttemptPhase


class Crew(Struct, frozen=True, kw_only=True):
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
    def surplus(self) -> int:
        """Workers that an elastic gang can do without, whether it sheds them live or begins anew from a checkpoint."""
        if not (self.request.live or self.request.saves):
            return 0
        staying = sum(worker.desired != "stop" for worker in self.workers)
        return 0 if self.request.minimum is None else max(0, staying - self.request.minimum)


def crews_of(index: ClusterIndex) -> dict[str, Crew]:
    """By job uid."""
    members: dict[str, list[WorkerRecord]] = {}
    for workers in index.workers.values():
        for worker in workers.values():
            members.setdefault(worker.attempt_uid, []).append(worker)
    crews = {}
    for attempt in index.attempts.values():
        request = index.asks.get(attempt.job_uid)
        if request is not None and attempt.uid in members:
            found = members[attempt.uid]
            if len(found) > 1:
                found.sort(key=lambda worker: (worker.role, worker.index))
            crew = tuple(found)
            crews[attempt.job_uid] = Crew(
                request=request,
                attempt=attempt,
                workers=crew,
                saved=index.saved[attempt.job_uid].created_at if attempt.job_uid in index.saved else 0.0,
                leaving=attempt.phase is AttemptPhase.STOPPING
                or (crew[0].desired == "stop" and all(w.desired == "stop" for w in crew)),
            )
    return crews


def held_devices(index: ClusterIndex, worker: WorkerRecord) -> list[Device]:
    node = index.nodes.get(worker.node)
    return [device for device in node.devices if device.index in worker.devices] if node and worker.devices else []


def charge(index: ClusterIndex, crew: Crew, workers: Iterable[WorkerRecord]) -> dict[str, int]:
    """Devices by kind that these of its workers are charged for."""
    some = list(workers)
    found: Counter[str] = Counter()
    for worker in some:
        found.update(device.type for device in held_devices(index, worker))
    if crew.request.charge is not None:
        return {kind: crew.request.charge * len(some) // len(crew.workers) for kind in found}
    return dict(found)


def vacate(index: ClusterIndex, room: Room, workers: Iterable[WorkerRecord]) -> None:
    """Give a room what these workers hold, where the node takes work."""
    for worker in workers:
        node = index.nodes.get(worker.node)
        if node is not None and takes_work(node):
            devices = [device for device in held_devices(index, worker) if device.healthy]
            room.give(worker.node, worker.cpu_milli, worker.memory, devices)


def usage(index: ClusterIndex, crews: Mapping[str, Crew]) -> Iterable[tuple[str, dict[str, int]]]:
    """(queue, devices by kind) of every gang that holds something."""
    for crew in crews.values():
        yield crew.request.queue, charge(index, crew, crew.workers)
