"""The start of the first blocked gang that can be dated, and what is kept for it."""

from controller.scheduling.cycle import Cycle
from controller.scheduling.endings import Endings
from controller.scheduling.room import Room
from controller.scheduling.types import GangRequest, Reservation, WorkerPlacement


def reserve(cycle: Cycle, request: GangRequest) -> Reservation | None:
    """When and where the gang starts at the latest if everything that runs ends at its limit; None when that cannot be
    said. From then on only who ends before may use what it needs."""
    ends = Endings(cycle)
    low, high = 0, len(ends.times) - 1
    found = _at(cycle, request, ends.room(ends.times[high])) if ends.times else None
    if found is None:
        return None
    while low < high:
        middle = (low + high) // 2
        sooner = _at(cycle, request, ends.room(ends.times[middle]))
        if sooner is None:
            low = middle + 1
        else:
            high, found = middle, sooner
    room, workers = found
    cycle.kept, cycle.kept_until = cycle.room.copy(), ends.times[high]
    nodes = tuple(dict.fromkeys(worker.node for worker in workers))
    cycle.kept.limit(room, [cycle.fabric.positions[node] for node in nodes])
    return Reservation(job_uid=request.job_uid, at=ends.times[high], nodes=nodes)


def _at(cycle: Cycle, request: GangRequest, room: Room) -> tuple[Room, tuple[WorkerPlacement, ...]] | None:
    """The room that is left after the gang has taken its place."""
    found = cycle.place(room, request, quota=False)
    return (room, found[1]) if found else None
