"""A domain made whole by moving gangs that may be moved: each destination is found before anyone stops."""

from msgspec.structs import replace

from controller.scheduling.crew import Crew
from controller.scheduling.crews import vacate
from controller.scheduling.cycle import Cycle
from controller.scheduling.types import GangRequest, Migration
from controller.scheduling.victims import Candidate, Choice, find_victims


def migrations_for(cycle: Cycle, request: GangRequest) -> tuple[Migration, ...]:
    """The fewest moves after which the gang fits; none where there are none, or its queue does not ask for it."""
    choice = find_victims(cycle, request, movables(cycle, request))
    return _moved(cycle, request, choice) if choice is not None else ()


def movables(cycle: Cycle, request: GangRequest) -> list[Candidate]:
    """Gangs that may be moved for this one: of its own queue, where that consolidates."""
    queue = cycle.index.queues.get(request.queue)
    if queue is None or not queue.spec.get("consolidation"):
        return []
    return [
        Candidate(crew, crew.workers, False, (1.0, 0.0, 0.0, float(len(crew.workers))))
        for _, crew in sorted(cycle.crews.items())
        if crew.request.queue == request.queue and _may_move(crew)
    ]


def _may_move(crew: Crew) -> bool:
    """It says so, or it goes on from a checkpoint that this very run of it has written. A gang that is just being moved
    or resized stays."""
    request = crew.request
    if crew.leaving or not request.preemptible:
        return False
    return request.migratable or (request.saves and crew.saved > crew.since)


def _moved(cycle: Cycle, request: GangRequest, choice: Choice) -> tuple[Migration, ...]:
    room = cycle.room.copy()
    for part in choice.victims:
        vacate(cycle.index, room, part.workers)
    mine = cycle.place(room, request, quota=False)
    if mine is None:
        return ()
    moves = []
    for part in choice.victims:
        crew = part.crew
        alike = replace(crew.request, preferred=(), repair=False, claim=None)
        found = cycle.place(room, alike, quota=False)
        if found is None:
            return ()
        moves.append(
            Migration(
                job_uid=crew.request.job_uid,
                attempt_uid=crew.attempt.uid,
                workers=found[1],
                beneficiary=request.job_uid,
                room=mine[1],
            )
        )
    return tuple(moves)
