"""When a plan may come out otherwise although nothing has changed: the next date that the planner looks at."""

from collections.abc import Iterable, Iterator

from controller.scheduling.aside import dates as aside_dates
from controller.scheduling.cycle import Cycle
from controller.scheduling.elastic import settles_at
from controller.scheduling.sharing import LOOKS, STEP
from controller.scheduling.types import GangRequest
from muster.quantity import parse_duration


def next_date(cycle: Cycle, claims: Iterable[GangRequest], waiting: bool) -> float | None:
    """UTC seconds, later than now; None where only a change can bring something new."""
    dates = [*_deadlines(claims), *_settling(cycle), *aside_dates(cycle, waiting)]
    if waiting:
        dates += _protected(cycle)
        if any(sharing.places for sharing in cycle.sharing.values()):
            dates.append(cycle.now + LOOKS)
    if any(sharing.sizes for sharing in cycle.sharing.values()):
        dates.append((cycle.now // STEP + 1) * STEP)
    return min((date for date in dates if date > cycle.now), default=None)


def _deadlines(requests: Iterable[GangRequest]) -> Iterator[float]:
    for request in requests:
        if request.claim is not None and request.claim.deadline is not None:
            yield request.claim.deadline


def _protected(cycle: Cycle) -> Iterator[float]:
    """The ends of the times that queues promise to who has begun."""
    queues = cycle.index.queues.values()
    least = {queue.name: parse_duration(queue.spec["minRuntime"]) for queue in queues if queue.spec.get("minRuntime")}
    if least:
        for crew in cycle.crews.values():
            if crew.request.queue in least:
                yield crew.since + least[crew.request.queue]


def _settling(cycle: Cycle) -> Iterator[float]:
    """When elastic gangs may grow."""
    if cycle.index.elastic:
        for crew in cycle.crews.values():
            if (date := settles_at(crew)) is not None:
                yield date
