"""The planner: one pure function from the picture of the cluster to what starts and why the rest waits.

Every waiting gang in turn is placed whole on what is free after those before it. A gang that does not fit
changes nothing for those after it. What has not fitted once does not fit later in the same plan, since room only
shrinks: gangs that ask for the same share one answer, and the reasons speak of what is left at the end.
"""

from msgspec.structs import replace

from controller.scheduling.index import ClusterIndex
from controller.scheduling.placement import choose
from controller.scheduling.reasons import explain, fits_some, refusal, scene
from controller.scheduling.room import Room, shape_of
from controller.scheduling.types import DecisionGroup, DeviceRequest, GangRequest, Plan, Start, Wait
from muster.reasons import Waiting

Wish = tuple[tuple[tuple[DeviceRequest | None, int], ...], int, int, int, str | None, tuple[str, ...]]


def plan(index: ClusterIndex, now: float) -> Plan:
    """What starts now, and why the rest waits, in the order of service. `now` is UTC seconds."""
    requests = index.requests()
    if not requests:
        return Plan()
    room = Room(index.fabric, index.free, index.free_devices)
    groups: list[DecisionGroup] = []
    waiting: list[tuple[GangRequest, Wait | None]] = []
    refused: set[Wish] = set()
    for request in requests:
        unplanned = refusal(index, request)
        start = None
        if unplanned is None and wish(request) not in refused:
            start = place(room, request)
        if start is not None:
            groups.append(_group(start))
            continue
        waiting.append((request, unplanned))
        if unplanned is None:
            refused.add(wish(request))
    return Plan(tuple(groups), _reasons(index, room, waiting))


def place(room: Room, request: GangRequest) -> Start | None:
    """The first acceptable kind whose gang fits, taken out of `room`; None leaves `room` as it was. A gang goes
    back to its preferred nodes, if it fits there whole, before any kind is looked for elsewhere."""
    for nodes in (request.preferred, ()) if request.preferred else ((),):
        for device, workers in request.options:
            shape = shape_of(request, device)
            chosen = choose(room, request, shape, workers, nodes)
            if chosen is not None:
                return Start(
                    job_uid=request.job_uid,
                    scope=request.scope,
                    device_type=device.type if device else None,
                    workers=room.take(shape, chosen),
                    domain=room.fabric.shared(chosen),
                )
    return None


def fits_empty(index: ClusterIndex, request: GangRequest) -> Wait | None:
    """None when the gang would fit if nothing ran (or names a level that does not exist); else the warning
    STRUCTURAL with what the cluster has. Nodes may come."""
    empty = Room(index.fabric, index.total, index.free_devices)
    if refusal(index, request) is not None or fits_some(empty, request):
        return None
    wait = explain(scene(index, empty), request)
    return replace(wait, code=Waiting.STRUCTURAL, others=())


def wish(request: GangRequest) -> Wish:
    """What decides whether a gang fits at all, whoever asks and wherever it would like to lie."""
    return (
        request.options,
        request.cpu_milli,
        request.memory,
        request.max_per_node,
        request.required_level,
        request.excluded,
    )


def _reasons(index: ClusterIndex, room: Room, waiting: list[tuple[GangRequest, Wait | None]]) -> tuple[Wait, ...]:
    if not waiting:
        return ()
    view = scene(index, room)
    known: dict[Wish, Wait] = {}
    waits = []
    for request, unplanned in waiting:
        if unplanned is None and wish(request) not in known:
            known[wish(request)] = explain(view, request)
        wait = unplanned or known[wish(request)]
        waits.append(replace(wait, job_uid=request.job_uid))
    return tuple(waits)


def _group(start: Start) -> DecisionGroup:
    return DecisionGroup(start=start, reads=tuple(dict.fromkeys(worker.node for worker in start.workers)))
