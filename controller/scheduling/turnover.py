"""The division of a time-sharing queue's devices among gangs whose throughput by size is known, made true in one decision.

Sizes come from `discipline/elastic.py`, which weighs what each gang would gain against its restart. Whoever's size rests, rests. All others
stop and are placed anew together, the largest first; what they are given is theirs before anybody stops.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import gcd

from msgspec.structs import replace

from controller.records import JobRecord
from controller.scheduling.crew import Crew
from controller.scheduling.crews import vacate
from controller.scheduling.cycle import Cycle
from controller.scheduling.discipline.elastic import Claim, divide
from controller.scheduling.discipline.programs import speeds_of
from controller.scheduling.discipline.remaining import Served
from controller.scheduling.room import Room
from controller.scheduling.types import Eviction, GangRequest, Migration, Turnover, Victim, WorkerPlacement

TRIES = 8


def sized(request: GangRequest, workers: int) -> GangRequest:
    """The gang with exactly so many workers."""
    return replace(request, options=tuple((device, workers) for device, _ in request.options), minimum=None)


def sizes_of(
    jobs: Mapping[str, JobRecord],
    requests: Mapping[str, GangRequest],
    current: Mapping[str, int],
    served: Iterable[Served],
    devices: int,
) -> dict[str, int]:
    """Workers of each gang, 0 for those that wait, out of a pool of so many devices of one kind. A gang without a known throughput
    has its own size or none."""
    each = {uid: _each(request) for uid, request in requests.items()}
    unit = gcd(*each.values())
    claims = []
    for one in served:
        uid, step = one.job, each[one.job] // unit
        speeds = speeds_of(jobs[uid].spec) or _rigid(requests[uid])
        table = [0.0] * ((len(speeds) - 1) * step + 1)
        least = requests[uid].minimum or 1
        for workers, speed in enumerate(speeds):
            table[workers * step] = speed if workers >= least else 0.0
        asked = jobs[uid].spec.get("workers", 1) * step
        claims.append(
            Claim(
                job=uid,
                requested=asked,
                remaining=one.remaining / unit,
                current=current.get(uid, 0) * step,
                speed=tuple(table),
            )
        )
    found = divide(claims, devices // unit)
    return {uid: found[uid] * unit // each[uid] for uid in found}


def turn_over(
    cycle: Cycle, queue: str, sizes: Mapping[str, int], crews: Sequence[Crew], waiting: Sequence[GangRequest]
) -> tuple[Turnover, list[tuple[GangRequest, tuple[WorkerPlacement, ...]]]]:
    """(who stops, moves and claims; who starts at once, and where). Nothing is taken out of the cycle's room."""
    changing = [crew for crew in crews if sizes.get(crew.request.job_uid, 0) != len(crew.workers)]
    for _ in range(TRIES):
        placed, failed = _placed(cycle, sizes, changing, waiting)
        stuck = [crew for crew in changing if crew.request.job_uid in failed]
        if not stuck:
            break
        changing = [crew for crew in changing if crew not in stuck]  # it keeps its size: there is no place for another
    free = _free(cycle, placed, changing)
    stops = tuple(
        Victim(job_uid=crew.request.job_uid, attempt_uid=crew.attempt.uid)
        for crew in changing
        if crew.request.job_uid not in placed
    )
    moves = tuple(
        Migration(job_uid=uid, attempt_uid=crew.attempt.uid, workers=placed[uid], beneficiary=uid)
        for crew in changing
        if (uid := crew.request.job_uid) in placed
    )
    leaving = {worker.uid: worker.node for crew in changing for worker in crew.workers}
    starts, claims = [], []
    for request in waiting:
        workers = placed.get(request.job_uid)
        if workers is None:
            continue
        if request.job_uid in free:
            starts.append((sized(request, len(workers)), workers))
            continue
        nodes = {worker.node for worker in workers}
        awaited = tuple(sorted(uid for uid, node in leaving.items() if node in nodes))
        claims.append(Eviction(job_uid=request.job_uid, victims=(), workers=workers, awaited=awaited))
    return Turnover(queue=queue, stops=stops, moves=moves, claims=tuple(claims)), starts


def _each(request: GangRequest) -> int:
    device = request.options[0][0]
    return device.count if device else 1


def _rigid(request: GangRequest) -> tuple[float, ...]:
    workers = request.options[0][1]
    return (*[0.0] * workers, 1.0)


def _placed(
    cycle: Cycle, sizes: Mapping[str, int], changing: Sequence[Crew], waiting: Sequence[GangRequest]
) -> tuple[dict[str, tuple[WorkerPlacement, ...]], set[str]]:
    room = cycle.room.copy()
    for crew in changing:
        vacate(cycle.index, room, crew.workers)
    wanted = [replace(crew.request, preferred=(), claim=None) for crew in changing] + list(waiting)
    wanted = [request for request in wanted if sizes.get(request.job_uid)]
    placed, failed = {}, set()
    for request in sorted(wanted, key=lambda request: (-sizes[request.job_uid] * _each(request), request.name)):
        found = cycle.place(room, sized(request, sizes[request.job_uid]), quota=False)
        if found is None:
            failed.add(request.job_uid)
        else:
            placed[request.job_uid] = found[1]
    return placed, failed


def _free(cycle: Cycle, placed: Mapping[str, tuple[WorkerPlacement, ...]], changing: Sequence[Crew]) -> set[str]:
    """Gangs that wait and lie on nothing that somebody vacates."""
    vacated = {(worker.node, device) for crew in changing for worker in crew.workers for device in worker.devices}
    moving = {crew.request.job_uid for crew in changing}
    room: Room = cycle.room
    free = set()
    for uid, workers in placed.items():
        taken = {(worker.node, device) for worker in workers for device in worker.devices}
        known = all(room.fabric.positions.get(worker.node) is not None for worker in workers)
        if uid not in moving and known and not taken & vacated:
            free.add(uid)
    return free
