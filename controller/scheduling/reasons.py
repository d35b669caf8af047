"""Why a gang waits: the binding code, a sentence with the numbers, what would help."""

from controller.scheduling.fabric import NODE
from controller.scheduling.index import ClusterIndex, levels
from controller.scheduling.placement import best
from controller.scheduling.room import Room, Table, shape_of, without
from controller.scheduling.types import DeviceRequest, GangRequest, Wait
from muster.quantity import format_cpu, format_memory
from muster.reasons import Waiting

DEFAULT_QUEUE = "default"


def refusal(index: ClusterIndex, request: GangRequest) -> Wait | None:
    """What keeps a gang from being planned at all, whatever is free."""

    def wait(code: Waiting, message: str, helps: str) -> Wait:
        return Wait(job_uid=request.job_uid, code=code, message=message, helps=helps)

    known = levels(index)
    for level in (request.required_level, request.preferred_level):
        if level is not None and level not in known:
            return wait(
                Waiting.INVALID_TOPOLOGY,
                f"the fabric has no level {level!r}; its levels are {', '.join(known)}",
                "name one of them in spec.topology",
            )
    queue = index.queues.get(request.queue)
    if queue is None and request.queue != DEFAULT_QUEUE:
        return wait(Waiting.QUOTA, f"queue {request.queue} does not exist", f"create the queue {request.queue}")
    if queue is not None and queue.spec.get("stopped"):
        return wait(Waiting.QUOTA, f"queue {request.queue} is stopped", "start the queue again")
    return None


def explain(index: ClusterIndex, room: Room, request: GangRequest) -> Wait:
    """Why no acceptable kind of a gang fits what is free."""
    found = [_option(room, request, device, workers) for device, workers in request.options]
    order = list(Waiting)
    code = min((code for code, _ in found), key=order.index)
    others = tuple(sorted({other for other, _ in found} - {code}, key=order.index))
    return Wait(job_uid=request.job_uid, code=code, message="; ".join(text for _, text in found), others=others)


def _option(room: Room, request: GangRequest, device: DeviceRequest | None, workers: int) -> tuple[Waiting, str]:
    shape = shape_of(request, device)
    table = without(room.fabric, room.table(shape), request.excluded)
    level = request.required_level or ""
    needs = f"needs {_count(workers, 'worker')} x {_size(request, device)}" + (f" in one {level}" if level else "")
    return _code(room, request, device, workers), f"{needs}; {_best(room, table, level)}"


def _best(room: Room, table: Table, level: str) -> str:
    fabric = room.fabric
    if not level:
        return f"the cluster has room for {int(table.slots[0].sum())}"
    domain, fit = best(fabric, table, fabric.depth(level))
    if domain < 0:
        return f"no node is labelled with a {level}"
    name = fabric.levels[fabric.depth(level)].names[domain]
    return f"the best {level}, {name}, has room for {fit}" if level != NODE or name else f"room for {fit}"


def _code(room: Room, request: GangRequest, device: DeviceRequest | None, workers: int) -> Waiting:
    needs = [(room.free(None), request.cpu_milli), (room.memory(), request.memory)]
    if device is not None:
        needs.append((room.free(device.type), device.count))
    for column, need in needs:
        usable = column if not need else column.clip(max=need * request.max_per_node)
        if usable.sum() < need * workers:
            return Waiting.CAPACITY
    return Waiting.TOPOLOGY_FRAGMENTED


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _size(request: GangRequest, device: DeviceRequest | None) -> str:
    if device is not None:
        return f"{device.count} {device.type}"
    return f"{format_cpu(request.cpu_milli)} CPU and {format_memory(request.memory)}"
