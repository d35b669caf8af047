"""Small gangs of time-sharing queues that lie on more nodes than they need move together when room has come up."""

from collections.abc import Mapping

from msgspec.structs import replace

from controller.scheduling.crew import Crew
from controller.scheduling.crews import vacate
from controller.scheduling.cycle import Cycle
from controller.scheduling.discipline.remaining import worth_moving
from controller.scheduling.room import Room
from controller.scheduling.sharing import Sharing
from controller.scheduling.turnover import sized
from controller.scheduling.types import Migration


def gather(cycle: Cycle, sharings: Mapping[str, Sharing]) -> tuple[Migration, ...]:
    """One move for each gang that finds fewer nodes, where that outlasts its restart."""
    moves = []
    room = cycle.room.copy()
    for uid, crew in sorted(cycle.crews.items()):
        sharing = sharings.get(crew.request.queue)
        if sharing is not None and uid in sharing.places and _spread(crew) and _worth(cycle, crew, sharing):
            move = _gathered(cycle, room, crew)
            if move is not None:
                moves.append(move)
    return tuple(moves)


def _spread(crew: Crew) -> bool:
    return len({worker.node for worker in crew.workers}) > 1 and crew.request.saves and not crew.request.roles


def _worth(cycle: Cycle, crew: Crew, sharing: Sharing) -> bool:
    if sharing.sizes is not None and sharing.sizes.get(crew.request.job_uid) != len(crew.workers):
        return False
    if crew.leaving or any(worker.desired == "stop" for worker in crew.workers):
        return False
    uid = crew.request.job_uid
    devices = sum(len(worker.devices) for worker in crew.workers)
    settled = cycle.now - crew.since
    return uid not in sharing.yielding and worth_moving(devices, sharing.left[uid], settled)


def _gathered(cycle: Cycle, room: Room, crew: Crew) -> Migration | None:
    trial = room.copy()
    vacate(cycle.index, trial, crew.workers)
    alike = sized(replace(crew.request, preferred=(), repair=False, claim=None), len(crew.workers))
    found = cycle.place(trial, alike, quota=False)
    if found is None or len({w.node for w in found[1]}) >= len({w.node for w in crew.workers}):
        return None
    own = {(worker.node, device) for worker in crew.workers for device in worker.devices}
    for placed in found[1]:
        position = cycle.fabric.positions[placed.node]
        new = {device for device in placed.devices if (placed.node, device) not in own}
        room.lose(position, 0, 0, [device for device in room.devices(position) if device.index in new])
    uid = crew.request.job_uid
    return Migration(job_uid=uid, attempt_uid=crew.attempt.uid, workers=found[1], beneficiary=uid)
