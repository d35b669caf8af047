"""Why a gang waits: the binding code, a sentence with the numbers, what would help."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from msgspec import Struct

from controller.records import NodeRecord
from controller.scheduling.columns import MOST, takes_work
from controller.scheduling.fabric import NODE
from controller.scheduling.index import ClusterIndex, levels
from controller.scheduling.placement import best, pick
from controller.scheduling.room import Room, Shape, Table, needs, positions, shape_of, tabulate, without
from controller.scheduling.types import DeviceRequest, GangRequest, Wait
from muster.quantity import format_cpu, format_memory
from muster.reasons import Waiting

DEFAULT_QUEUE: Final = "default"
"""Exists without being made."""

_ORDER: Final = {code: place for place, code in enumerate(Waiting)}


class Scene(Struct, frozen=True):
    """What reasons are found in: what is free, what would be if nothing ran, and the nodes that take no work."""

    room: Room
    empty: Room
    idle: tuple[NodeRecord, ...]


class Finding(Struct, frozen=True):
    """Why one acceptable kind does not fit."""

    code: Waiting
    text: str
    helps: tuple[str, ...]


def scene(index: ClusterIndex, room: Room) -> Scene:
    empty = Room(index.fabric, index.total, index.free_devices)
    return Scene(room, empty, tuple(node for node in index.nodes.values() if not takes_work(node)))


def refusal(index: ClusterIndex, request: GangRequest) -> Wait | None:
    """What keeps a gang from being planned at all, whatever is free."""

    def wait(code: Waiting, message: str, helps: str) -> Wait:
        return Wait(job_uid=request.job_uid, code=code, message=message, helps=helps)

    known = levels(index)
    for level in (request.required_level, request.preferred_level):
        if level is not None and level not in known:
            message = f"the fabric has no level {level}; its levels are {', '.join(known)}"
            return wait(Waiting.INVALID_TOPOLOGY, message, "name one of them in spec.topology")
    queue = index.queues.get(request.queue)
    if queue is None and request.queue != DEFAULT_QUEUE:
        return wait(Waiting.QUOTA, f"queue {request.queue} does not exist", f"create queue {request.queue}")
    if queue is not None and queue.spec.get("stopped"):
        return wait(Waiting.QUOTA, f"queue {request.queue} is stopped", f"start queue {request.queue} again")
    return None


def explain(scene: Scene, request: GangRequest) -> Wait:
    """Why no acceptable kind of a gang fits what is free."""
    found = [_finding(scene, request, device, workers) for device, workers in request.options]
    code = min((finding.code for finding in found), key=_ORDER.__getitem__)
    others = {finding.code for finding in found} - {code}
    if not fits_some(scene.empty, request):
        others.add(Waiting.STRUCTURAL)
    return Wait(
        job_uid=request.job_uid,
        code=code,
        message="; or ".join(dict.fromkeys(finding.text for finding in found)),
        others=tuple(sorted(others, key=_ORDER.__getitem__)),
        helps="; ".join(dict.fromkeys(hint for finding in found for hint in finding.helps)),
    )


def fits_some(room: Room, request: GangRequest) -> bool:
    """Whether any acceptable kind fits, on whatever nodes."""
    required = room.fabric.depth(request.required_level)
    return any(
        pick(room.fabric, room.table(shape_of(request, device)), workers, required) is not None
        for device, workers in request.options
    )


def _finding(scene: Scene, request: GangRequest, device: DeviceRequest | None, workers: int) -> Finding:
    room, shape = scene.room, shape_of(request, device)
    table = without(room.fabric, room.table(shape), request.excluded)
    depth = room.fabric.depth(request.required_level)
    text = f"needs {_need(request, device, workers)}; {_room(room, table, depth)}"
    text += _few(scene, shape, workers) or _short(room, shape, request, workers, depth)
    helps = (*_looser(room, shape, table, request, workers, depth), *_absent(scene, shape))
    return Finding(_code(room, shape, request, workers), text, helps)


def _code(room: Room, shape: Shape, request: GangRequest, workers: int) -> Waiting:
    """CAPACITY: of some resource there is not enough on all nodes together, with no more on a node than its share
    of the gang may use. Else there is enough, but not where it would serve."""
    ruled_out = positions(room.fabric, request.excluded)
    for _, column, need in needs(room.free, shape):
        usable = column.clip(max=min(need * shape.max_per_node, MOST))
        if usable.sum() - usable[ruled_out].sum() < need * workers:
            return Waiting.CAPACITY
    return Waiting.TOPOLOGY_FRAGMENTED


def _need(request: GangRequest, device: DeviceRequest | None, workers: int) -> str:
    size = f"{format_cpu(request.cpu_milli)} CPU and {format_memory(request.memory)}"
    if device is not None:
        size = f"{device.count} {device.type}"
    return f"{_count(workers, 'worker')} x {size}" + _within(request.required_level)


def _within(level: str | None) -> str:
    return "" if level is None else " on one node" if level == NODE else f" in one {level}"


def _room(room: Room, table: Table, depth: int) -> str:
    if not depth:
        fit = int(table.slots[0][0])
        return f"the cluster has room for {fit}" if fit else "no node has room for one"
    level = room.fabric.levels[depth].name
    name, fit = best(room.fabric, table, depth)
    if not name:
        return f"no node is labelled with its {level}"
    return f"the best {level}, {name}, has room for {fit}" if fit else f"no {level} has room for one"


def _few(scene: Scene, shape: Shape, workers: int) -> str:
    """The count of devices, where already there are too few."""
    if shape.device is None:
        return ""
    kind = shape.device.type
    free, total = (int(room.free.kind(kind).sum()) for room in (scene.room, scene.empty))
    if not total:
        return f"; no node has {kind}"
    return f"; {free} of {total} {kind} are free" if free < shape.device.count * workers else ""


def _short(room: Room, shape: Shape, request: GangRequest, workers: int, depth: int) -> str:
    """The one resource without which the gang would fit, where that is not the devices."""
    for name, looser, each in (
        ("CPU", Shape(shape.device, 0, shape.memory, shape.max_per_node), format_cpu(shape.cpu_milli)),
        ("memory", Shape(shape.device, shape.cpu_milli, 0, shape.max_per_node), format_memory(shape.memory)),
    ):
        table = without(room.fabric, room.table(looser), request.excluded)
        if pick(room.fabric, table, workers, depth) is not None:
            return f"; {name} is what is short ({each} for each worker)"
    return ""


def _looser(room: Room, shape: Shape, table: Table, request: GangRequest, workers: int, depth: int) -> Iterable[str]:
    """Changes of the manifest, and of what a verdict ruled out, with which the gang would fit now."""
    fabric = room.fabric
    for outer in range(depth - 1, -1, -1):
        if pick(fabric, table, workers, outer) is not None:
            name = fabric.levels[outer].name
            yield f"topology.required: {name} has room" if name else "without topology.required there is room"
            break
    several = np.minimum(table.units[-1], workers)
    if shape.max_per_node < workers and pick(fabric, tabulate(fabric, several, workers), workers, depth) is not None:
        yield f"there is room with more than {_count(shape.max_per_node, 'worker')} on a node (maxPerNode)"
    if request.excluded and pick(fabric, room.table(shape), workers, depth) is not None:
        yield f"there is room on {_names(request.excluded)}, excluded after a failure there"


def _absent(scene: Scene, shape: Shape) -> Iterable[str]:
    """Nodes that would count if they took work, and kinds that the manifest could name."""
    devices = scene.empty.free.devices
    if shape.device is not None and shape.device.type not in devices:
        if devices:
            yield f"the cluster has {_names(devices)}"
        return
    slots, places = scene.empty.table(shape).slots[-1], scene.empty.fabric.positions
    useful = [node for node in scene.idle if slots[places[node.name]]]
    for state, names in (
        ("cordoned", [node.name for node in useful if node.cordoned]),
        ("not reachable", [node.name for node in useful if not node.cordoned]),
    ):
        if names:
            yield f"{_names(names)} {'is' if len(names) == 1 else 'are'} {state}"


def _names(names: Iterable[str]) -> str:
    """At most four of them."""
    listed = sorted(names)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
