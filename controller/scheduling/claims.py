"""What is promised: the destinations of gangs that move, room on its way out, and claims whose time is over."""

from collections import Counter
from collections.abc import Collection, Iterator

from msgspec.structs import replace

from controller.records import WorkerRecord
from controller.scheduling.crew import Crew
from controller.scheduling.crews import charge, vacate
from controller.scheduling.cycle import Cycle
from controller.scheduling.types import Eviction, GangRequest
from muster.reasons import End

MOVES = (End.RESIZED, End.MIGRATED)


def bind(cycle: Cycle) -> None:
    """Keep for each gang that is stopped for another place or size what is free of it, and what of its own it stays
    on."""
    moving = [attempt.job_uid for attempt in cycle.index.stopping.values() if attempt.reason in MOVES]
    if not moving:
        return
    given_up = {uid for job in cycle.index.jobs.values() if job.claim for uid in job.claim.vacating}
    for uid in sorted(moving):
        job, crew = cycle.index.jobs.get(uid), cycle.crews.get(uid)
        if job is None or crew is None or job.claim is None:
            continue
        mine = {worker.uid for worker in crew.workers}
        others = given_up if not mine <= set(job.claim.vacating) else _given_to_others(cycle, uid)
        cycle.promised |= mine - others
        missing = Counter(job.claim.nodes) - Counter(worker.node for worker in crew.workers)
        cycle.hold(crew.request, missing.elements())


def _given_to_others(cycle: Cycle, uid: str) -> set[str]:
    claims = (job.claim for job in cycle.index.jobs.values() if job.claim and job.uid != uid)
    return {worker for claim in claims for worker in claim.vacating}


def of_claim(request: GangRequest) -> GangRequest:
    """The gang without its claim, and of an elastic one no more than was claimed."""
    claim = request.claim
    assert claim is not None
    options = request.options
    if request.minimum is not None:
        options = tuple((device, min(most, len(claim.nodes))) for device, most in options)
    return replace(request, claim=None, options=options)


def take_over(cycle: Cycle, request: GangRequest, but: Collection[str] = ()) -> Eviction | None:
    """A place on what is free and what is on its way out, promised to nobody better: no one need be told to go.
    `but` are workers that are not counted upon."""
    leaving = [(crew, worker) for crew, worker in _leaving(cycle) if worker.uid not in but]
    if not leaving:
        return None
    room = cycle.for_whom(request).copy()
    vacate(cycle.index, room, (worker for _, worker in leaving))
    booked = [(crew.request.queue, charge(cycle.index, crew, [worker])) for crew, worker in leaving]
    for queue, demand in booked:
        cycle.book.add(queue, demand, -1)
    found = cycle.place(room, request)
    for queue, demand in booked:
        cycle.book.add(queue, demand)
    if found is None:
        return None
    nodes = {placed.node for placed in found[1]}
    awaited = tuple(sorted(worker.uid for _, worker in leaving if worker.node in nodes))
    names = ", ".join(sorted({crew.request.name for crew, worker in leaving if worker.node in nodes}))
    return Eviction(
        job_uid=request.job_uid, victims=(), workers=found[1], awaited=awaited, message=f"{names} is leaving already"
    )


def _leaving(cycle: Cycle) -> Iterator[tuple[Crew, WorkerRecord]]:
    for _, crew in sorted(cycle.crews.items()):
        for worker in crew.workers:
            if (crew.leaving or worker.desired == "stop") and worker.uid not in cycle.promised:
                yield crew, worker
