"""What nobody waits for goes to elastic gangs that run with fewer workers than they wish.

A gang that grows by a restart does so only when it has settled in its size, and when what it gains outlasts the work since its
last checkpoint and the restart.
"""

from msgspec.structs import replace

from controller.scheduling.book import demand_of
from controller.scheduling.crew import Crew
from controller.scheduling.cycle import Cycle, largest, only_nodes
from controller.scheduling.fabric import Bools
from controller.scheduling.placement import choose
from controller.scheduling.room import shape_of
from controller.scheduling.types import Growth
from muster.states import AttemptPhase

SETTLED = 600.0  # seconds that a gang keeps its size before it grows by a restart
RESTART = 120.0  # seconds that a restart is held to cost
HORIZON = 3600.0  # seconds over which what is gained is counted


def grow(cycle: Cycle) -> tuple[Growth, ...]:
    """The growth of every elastic gang, by priority, age and name. Its levels hold for what is added too."""
    found = []
    crews = [crew for crew in cycle.crews.values() if _may_grow(cycle, crew)]
    for crew in sorted(crews, key=lambda crew: (-crew.request.priority, crew.request.queued_at, crew.request.name)):
        grown = _grow(cycle, crew)
        if grown is not None:
            found.append(grown)
    return tuple(found)


def _may_grow(cycle: Cycle, crew: Crew) -> bool:
    request = crew.request
    sharing = cycle.sharing.get(request.queue)
    if sharing is not None and sharing.sizes is not None:
        return False
    if request.minimum is None or request.roles or crew.leaving or crew.attempt.phase is not AttemptPhase.RUNNING:
        return False
    if any(worker.desired == "stop" for worker in crew.workers):
        return False
    return request.live or (request.saves and cycle.now >= crew.since + SETTLED)


def settles_at(crew: Crew) -> float | None:
    """When it may grow by a restart at the soonest; None where it is as large as it wishes, or grows live."""
    request = crew.request
    if request.minimum is None or request.live or not request.saves or crew.leaving:
        return None
    return crew.since + SETTLED if crew.size < max(most for _, most in request.options) else None


def worth_it(cycle: Cycle, crew: Crew, more: int) -> bool:
    """Whether so many workers more are worth a restart now."""
    if crew.request.live:
        return True
    lost = max(0.0, cycle.now - crew.unsaved) + RESTART
    return more * HORIZON >= lost * len(crew.workers)


def _grow(cycle: Cycle, crew: Crew) -> Growth | None:
    request = crew.request
    device, most = request.options[0]
    missing = most - crew.size
    if missing <= 0:
        return None
    shape, room = shape_of(request, device), cycle.for_whom(request)
    more = replace(request, required_level=None, preferred=(), minimum=1)
    mask = _domain(cycle, crew)
    own = cycle.mask(request)
    if own is not None:
        mask = mask & own

    def fit(workers: int) -> dict[int, int] | None:
        if not cycle.allowed(request, demand_of(request, 0, workers)):
            return None
        return choose(room, more, shape, workers, mask)

    chosen = largest(fit, missing, more)
    if not chosen or not worth_it(cycle, crew, sum(chosen.values())):
        return None
    workers = room.take(shape, chosen)
    cycle.took(room, request, workers)
    cycle.book.add(request.queue, demand_of(request, 0, len(workers)))
    cycle.caps.add(request, demand_of(request, 0, len(workers)))
    return Growth(job_uid=request.job_uid, attempt_uid=crew.attempt.uid, workers=workers)


def _domain(cycle: Cycle, crew: Crew) -> Bools:
    """Where its required level allows it to be."""
    fabric = cycle.fabric
    level = fabric.levels[fabric.depth(crew.request.required_level)]
    here = only_nodes(fabric, [crew.workers[0].node])
    domains = set(level.of[here].tolist())
    mask: Bools = level.of == (domains.pop() if domains else -1)
    return mask
