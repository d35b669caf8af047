"""Queues that share their devices in time: whose turn it is, and who yields to them.

The discipline `timeSharing` of a queue serves first who is expected to end soonest (`discipline/remaining.py`), learned from past runs
of the same program. All of the queue's gangs, running or not, are taken in that order as far as the devices go; who runs and
is not among them yields to those who wait and are. Only gangs that go on from a checkpoint yield, and priority stands above.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller.records import JobRecord, QueueRecord
from controller.scheduling.crew import Crew
from controller.scheduling.cycle import Cycle
from controller.scheduling.discipline.programs import program_of, service, uid_of
from controller.scheduling.discipline.remaining import Served, Work, by_attained, by_remaining
from controller.scheduling.kinds import Asked
from controller.scheduling.turnover import sizes_of
from controller.scheduling.types import GangRequest

TIME_SHARING: Final = "timeSharing"
LOOKS: Final = 60.0
"""Seconds after which the order is looked at again while somebody waits: who runs comes nearer to his end, or turns out longer."""
STEP: Final = 300.0
"""Seconds in whose steps the work of a gang is counted whose size may change: between them a division rests."""


class Sharing(Struct, frozen=True):
    """One queue's order of service: the place of each of its gangs, what each is expected to need yet (device-seconds), whose
    turn it is though he waits, and who runs though it is not his turn. `sizes` are the workers of each gang where the devices
    are divided by what they are worth to whom."""

    places: Mapping[str, int]
    left: Mapping[str, float]
    called: frozenset[str]
    yielding: frozenset[str]
    sizes: Mapping[str, int] | None = None

    def outserves(self, request: GangRequest, victim: GangRequest) -> bool:
        """Whether a gang that waits may take the place of one that runs."""
        same = request.priority == victim.priority
        return same and request.job_uid in self.called and victim.job_uid in self.yielding


def shares_time(queue: QueueRecord | None) -> bool:
    return queue is not None and queue.spec.get("discipline") == TIME_SHARING


def sharings(cycle: Cycle) -> dict[str, Sharing]:
    """By queue; empty where no queue shares its devices in time. A gang that is on its way to another size counts."""
    names = {name for name, queue in cycle.index.queues.items() if shares_time(queue)}
    if not names:
        return {}
    waiting: dict[str, list[GangRequest]] = {name: [] for name in names}
    running: dict[str, list[Crew]] = {name: [] for name in names}
    for asked in cycle.index.order:
        if asked.request.queue in names:
            waiting[asked.request.queue].append(asked.request)
    for crew in cycle.crews.values():
        if crew.request.queue in names and not crew.leaving:
            running[crew.request.queue].append(crew)
        elif crew.request.queue in names and crew.request.claim is not None:
            waiting[crew.request.queue].append(crew.request)
    return {name: _share(cycle, waiting[name], running[name]) for name in names if waiting[name] or running[name]}


def in_turn(order: Sequence[Asked], sharings: Mapping[str, Sharing]) -> Sequence[Asked]:
    """The order of service, in which the gangs of each such queue have changed places among themselves."""
    if not sharings:
        return order
    lines = {
        name: iter(
            sorted((asked for asked in order if asked.request.queue == name), key=lambda asked: _turn(asked, one))
        )
        for name, one in sharings.items()
    }
    return [next(lines[asked.request.queue]) if asked.request.queue in lines else asked for asked in order]


def _turn(asked: Asked, sharing: Sharing) -> tuple[bool, int, bool, int]:
    request = asked.request
    return not request.repair, -request.priority, request.claim is None, sharing.places[request.job_uid]


def _share(cycle: Cycle, waiting: Sequence[GangRequest], running: Sequence[Crew]) -> Sharing:
    served = _served(cycle, waiting, running)
    requests = {request.job_uid: request for request in (*waiting, *(crew.request for crew in running))}
    if any(cycle.index.jobs[uid].spec.get("throughput") for uid in requests):
        return _divided(cycle, served, requests, running)
    order = sorted(served, key=lambda one: -requests[one.job].priority)  # stable: by remaining inside a priority
    crews = {crew.request.job_uid: crew for crew in running}
    budget = _budget(cycle, running)
    fixed = {uid for uid, crew in crews.items() if not (crew.request.saves and crew.request.preemptible)}
    for uid in fixed:
        budget -= _held(cycle, crews[uid])
    called, yielding = set(), set()
    for one in order:
        if one.job in fixed:
            continue
        crew = crews.get(one.job)
        taken = _afford(budget, [_held(cycle, crew)] if crew else _wishes(requests[one.job]))
        if taken is not None:
            budget -= taken
        if crew is None and taken is not None:
            called.add(one.job)
        if crew is not None and taken is None:
            yielding.add(one.job)
    return Sharing(
        {one.job: place for place, one in enumerate(order)},
        {one.job: one.remaining for one in served},
        frozenset(called),
        frozenset(yielding),
    )


def _divided(
    cycle: Cycle, served: Sequence[Served], requests: Mapping[str, GangRequest], running: Sequence[Crew]
) -> Sharing:
    """By kind, the one that each gang names first. Who cannot go on from a checkpoint keeps what it has."""
    current = {request.job_uid: len(request.claim.nodes) for request in requests.values() if request.claim}
    current |= {crew.request.job_uid: len(crew.workers) for crew in running}
    budget = _budget(cycle, running)
    sizes, kinds = {}, dict[str, list[Served]]()
    fixed = {crew.request.job_uid: crew for crew in running if not (crew.request.saves and crew.request.preemptible)}
    for crew in fixed.values():
        budget -= _held(cycle, crew)
        sizes[crew.request.job_uid] = len(crew.workers)
    for one in served:
        device = requests[one.job].options[0][0]
        if one.job not in fixed:
            kinds.setdefault(device.type if device else "", []).append(one)
    for kind, some in sorted(kinds.items()):
        mine = {one.job: requests[one.job] for one in some}
        sizes |= sizes_of(cycle.index.jobs, mine, current, some, budget[kind])
    places = {one.job: place for place, one in enumerate(served)}
    return Sharing(places, {one.job: one.remaining for one in served}, frozenset(), frozenset(), sizes)


def _served(cycle: Cycle, waiting: Sequence[GangRequest], running: Sequence[Crew]) -> list[Served]:
    index = cycle.index
    works = [_work(index.jobs[request.job_uid], request, 0.0, running=False) for request in waiting]
    works += [
        _work(index.jobs[crew.request.job_uid], crew.request, _spent(cycle, crew), running=True) for crew in running
    ]
    works.sort(key=lambda work: work.job)
    if not any(work.program for work in works):
        return by_attained(works)
    return by_remaining(works, {uid: program.sizes for uid, program in index.programs.items()})


def _spent(cycle: Cycle, crew: Crew) -> float:
    job, devices = cycle.index.jobs[crew.request.job_uid], sum(len(worker.devices) for worker in crew.workers)
    until = cycle.now // STEP * STEP if job.spec.get("throughput") else cycle.now
    return service(job.spec, len(crew.workers), devices, until - crew.attempt.placed_at)


def _work(job: JobRecord, request: GangRequest, spent: float, *, running: bool) -> Work:
    program = program_of(job)
    return Work(
        job=job.uid,
        program=uid_of(job.namespace, program) if program else "",
        devices=max(1, sum(_wishes(request)[0].values())),
        attained=job.attained + spent,
        running=running,
        submitted=job.queued_at,
    )


def _wishes(request: GangRequest) -> list[Counter[str]]:
    """Devices by kind that the gang needs at least, for each acceptable kind."""
    if request.roles:
        found: Counter[str] = Counter()
        for role in request.roles:
            if role.device is not None:
                found[role.device.type] += role.device.count * role.workers
        return [found]
    return [
        Counter({device.type: device.count * (request.minimum or workers)} if device else {})
        for device, workers in request.options
    ]


def _afford(budget: Counter[str], wishes: Iterable[Counter[str]]) -> Counter[str] | None:
    return next((wish for wish in wishes if all(budget[kind] >= count for kind, count in wish.items())), None)


def _held(cycle: Cycle, crew: Crew) -> Counter[str]:
    held: Counter[str] = Counter()
    for worker in crew.workers:
        node = cycle.index.nodes.get(worker.node)
        held.update(device.type for device in (node.devices if node else ()) if device.index in worker.devices)
    return held


def _budget(cycle: Cycle, running: Sequence[Crew]) -> Counter[str]:
    """What is free, what the queue's own gangs hold, and what is on its way out."""
    budget = Counter({kind: int(column.sum()) for kind, column in cycle.room.free.devices.items()})
    for crew in running:
        budget += _held(cycle, crew)
    for crew in cycle.crews.values():
        if crew.leaving:
            budget += _held(cycle, crew)
    return budget
