"""The planner: one pure function from the picture of the cluster to what starts and why the rest waits."""

from controller.scheduling import reasons
from controller.scheduling.index import ClusterIndex
from controller.scheduling.placement import choose
from controller.scheduling.room import Room, Shape, Table, only, shape_of, without
from controller.scheduling.types import DecisionGroup, GangRequest, Plan, Start, Wait
from muster.reasons import Waiting


def plan(index: ClusterIndex, now: float) -> Plan:
    """Every waiting gang in turn: started whole on what is free after those before it, or told why it waits.
    `now` is UTC seconds."""
    room = Room(index)
    groups: list[DecisionGroup] = []
    waits: list[Wait] = []
    for request in index.requests():
        refusal = reasons.refusal(index, request)
        start = None if refusal else place(room, request)
        if start is not None:
            groups.append(DecisionGroup(start=start, reads=tuple(dict.fromkeys(w.node for w in start.workers))))
        else:
            waits.append(refusal or reasons.explain(index, room, request))
    return Plan(tuple(groups), tuple(waits))


def fits_empty(index: ClusterIndex, request: GangRequest) -> Wait | None:
    """None when the gang would fit if nothing else ran; else the warning STRUCTURAL with the largest that fits."""
    room = Room(index.emptied())
    if reasons.refusal(index, request) is not None or place(room, request) is not None:
        return None
    wait = reasons.explain(index, room, request)
    return Wait(job_uid=request.job_uid, code=Waiting.STRUCTURAL, message=wait.message, others=(wait.code,))


def place(room: Room, request: GangRequest) -> Start | None:
    """The first acceptable kind whose gang fits, taken out of `room`."""
    for device, workers in request.options:
        shape = shape_of(request, device)
        chosen = _choose(room, request, shape, workers)
        if chosen is not None:
            return Start(
                job_uid=request.job_uid,
                scope=request.scope,
                device_type=device.type if device else None,
                workers=room.take(shape, chosen),
                domain=room.fabric.shared(chosen)[1],
            )
    return None


def _choose(room: Room, request: GangRequest, shape: Shape, workers: int) -> dict[int, int] | None:
    """Preferred nodes before all nodes, the preferred level before the required one."""
    fabric = room.fabric
    table = without(fabric, room.table(shape), request.excluded)
    tables: list[Table] = [table]
    if request.preferred:
        tables.insert(0, only(fabric, table, shape, request.preferred))
    required = fabric.depth(request.required_level)
    for candidates in tables:
        for depth in sorted({required, max(required, fabric.depth(request.preferred_level))}, reverse=True):
            chosen = choose(fabric, candidates, workers, depth)
            if chosen is not None:
                return chosen
    return None
