"""The start of the first blocked gang that can be dated, and what is kept for it."""

from controller.scheduling.crews import vacate
from controller.scheduling.cycle import Cycle, give_back
from controller.scheduling.room import Room
from controller.scheduling.types import GangRequest, Reservation, WorkerPlacement


def reserve(cycle: Cycle, request: GangRequest) -> Reservation | None:
    """When and where the gang starts at the latest if everything that runs ends at its limit; None when that cannot be
    said. From then on only who ends before may use what it needs."""
    ends = _ends(cycle)
    times = sorted({time for time, _ in ends})
    low, high = 0, len(times) - 1
    found = _at(cycle, request, times[high], ends) if times else None
    if found is None:
        return None
    while low < high:
        middle = (low + high) // 2
        sooner = _at(cycle, request, times[middle], ends)
        if sooner is None:
            low = middle + 1
        else:
            high, found = middle, sooner
    room, workers = found
    cycle.kept, cycle.kept_until = cycle.room.copy(), times[high]
    nodes = tuple(dict.fromkeys(worker.node for worker in workers))
    cycle.kept.limit(room, [cycle.fabric.positions[node] for node in nodes])
    return Reservation(job_uid=request.job_uid, at=times[high], nodes=nodes)


def _ends(cycle: Cycle) -> list[tuple[float, str]]:
    """(when, job) of everything that has a limit, this plan's own starts included."""
    crews = cycle.crews.items() if cycle.index.limited else ()
    ends = [(crew.ends, uid) for uid, crew in crews if crew.ends is not None]
    ends += [(cycle.now + r.limit, r.job_uid) for r, _ in cycle.started if r.limit is not None]
    return [(max(end, cycle.now), uid) for end, uid in ends]


def _at(
    cycle: Cycle, request: GangRequest, time: float, ends: list[tuple[float, str]]
) -> tuple[Room, tuple[WorkerPlacement, ...]] | None:
    """The room that is left at a time after the gang has taken its place."""
    room = cycle.room.copy()
    over = {uid for end, uid in ends if end <= time}
    for uid in over & cycle.crews.keys():
        vacate(cycle.index, room, cycle.crews[uid].workers)
    for started, workers in cycle.started:
        if started.job_uid in over:
            give_back(room, cycle.index, started, workers)
    found = cycle.place(room, request, quota=False)
    return (room, found[1]) if found else None
