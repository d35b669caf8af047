"""Why a gang waits: the binding code, a sentence with the numbers, what would help."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from controller.dependencies import waits
from controller.records import NodeRecord
from controller.scheduling.columns import MOST
from controller.scheduling.fabric import NODE, Bools
from controller.scheduling.gangs import choose_roles, describe, shapes_of
from controller.scheduling.index import ClusterIndex, empty_room, idle_nodes, levels
from controller.scheduling.placement import (
    best,
    choose,
    could,
    fits,
    in_segments,
    manner,
    rail_shapes,
    segment_error,
    usable,
)
from controller.scheduling.room import Room, Shape, needs, shape_of
from controller.scheduling.tables import Table, positions
from controller.scheduling.types import DeviceRequest, GangRequest, Wait
from muster.accelerators import catalogue
from muster.quantity import format_cpu, format_memory
from muster.reasons import Waiting

DEFAULT_QUEUE: Final = "default"
"""Exists without being made."""

SHOWN: Final = 4
"""Names in a list at most."""

ORDER: Final = {code: place for place, code in enumerate(Waiting)}


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
    numbers: dict[str, int] = {}


def scene(index: ClusterIndex, room: Room) -> Scene:
    return Scene(room, empty_room(index), idle_nodes(index))


def refusal(index: ClusterIndex, request: GangRequest) -> Wait | None:
    """What keeps a gang from being planned at all, whatever is free."""

    def wait(code: Waiting, message: str, helps: str) -> Wait:
        return Wait(job_uid=request.job_uid, code=code, message=message, helps=helps)

    known = levels(index)
    segment = request.segment.level if request.segment else None
    inner = (role.required_level for role in request.roles)
    for level in (request.required_level, request.preferred_level, segment, *inner):
        if level is not None and level not in known:
            message = f"the fabric has no level {level}; its levels are {', '.join(known)}"
            return wait(Waiting.INVALID_TOPOLOGY, message, "name one of them in spec.topology")
    if segments := segment_error(request):
        return wait(Waiting.INVALID_TOPOLOGY, segments, "change workers or spec.topology.segment")
    if request.after:
        job = index.jobs.get(request.job_uid)
        return waits(request.job_uid, request.after, len((job.spec.get("after") if job else None) or request.after))
    queue = index.queues.get(request.queue)
    if queue is None and request.queue != DEFAULT_QUEUE:
        return wait(Waiting.QUOTA, f"queue {request.queue} does not exist", f"create queue {request.queue}")
    if queue is not None and queue.spec.get("stopped"):
        return wait(Waiting.QUOTA, f"queue {request.queue} is stopped", f"start queue {request.queue} again")
    return None


def explain(scene: Scene, request: GangRequest, mask: Bools | None = None) -> Wait:
    """Why no acceptable kind of a gang fits what is free."""
    if request.roles:
        found = [_of_roles(scene, request, mask)]
    else:
        found = [_finding(scene, request, device, workers, mask) for device, workers in request.options]
    code = min((finding.code for finding in found), key=ORDER.__getitem__)
    others = {finding.code for finding in found} - {code}
    if not fits_some(scene.empty, request, mask):
        others.add(Waiting.STRUCTURAL)
    return Wait(
        job_uid=request.job_uid,
        code=code,
        message="; or ".join(dict.fromkeys(finding.text for finding in found)),
        others=tuple(sorted(others, key=ORDER.__getitem__)),
        helps="; ".join(dict.fromkeys(hint for finding in found for hint in finding.helps)),
        numbers={name: number for finding in reversed(found) for name, number in finding.numbers.items()},
    )


def fits_some(room: Room, request: GangRequest, mask: Bools | None = None) -> bool:
    """Whether any acceptable kind fits, on whatever nodes."""
    bare = replace(request, preferred=(), excluded=())
    if request.roles:
        return choose_roles(room, bare, mask).spreads is not None
    for device, workers in request.options:
        for shape in rail_shapes(room, shape_of(request, device)):
            if could(room, bare, shape, _least(request, workers), mask):
                return True
    return False


def _least(request: GangRequest, workers: int) -> int:
    return workers if request.minimum is None else min(request.minimum, workers)


def _finding(
    scene: Scene, request: GangRequest, device: DeviceRequest | None, workers: int, mask: Bools | None
) -> Finding:
    room, shape, workers = scene.room, shape_of(request, device), _least(request, workers)
    table = usable(room, request, shape, mask)
    depth = room.fabric.depth(request.required_level)
    text = f"needs {_need(request, device, workers)}{_only(mask)}; {_room(room, table, depth)}"
    text += _few(scene, shape, workers) or _short(room, shape, request, workers, depth, mask)
    text += _segments(room, table, request, workers) + _where(room, table, request, depth)
    code = _code(room, shape, request, workers, mask)
    if code is Waiting.DEVICE_FRAGMENTED:
        text += _split(room, shape)
    helps = (*_looser(room, shape, table, request, workers, depth, mask), *_absent(scene, shape))
    return Finding(code, text, helps, _numbers(scene, request, device, workers, table, depth))


def _numbers(
    scene: Scene, request: GangRequest, device: DeviceRequest | None, workers: int, table: Table, depth: int
) -> dict[str, int]:
    """What the sentence is made of: workers wanted, and for how many the best domain has room; devices of the kind
    that are wanted, free, and there at all."""
    fit = best(scene.room.fabric, table, depth)[1] if depth else table.slots[0][0]
    found = {"workers.wanted": workers, "workers.room": int(fit)}
    if device is not None:
        free, total = (int(room.free.kind(device.type).sum()) for room in (scene.room, scene.empty))
        found |= {
            f"{device.type}.wanted": device.count * workers,
            f"{device.type}.free": free,
            f"{device.type}.total": total,
        }
    return found


def _of_roles(scene: Scene, request: GangRequest, mask: Bools | None) -> Finding:
    """CAPACITY where all roles together need more of something than is free; else it lies in the wrong places."""
    room = scene.room
    allowed = np.ones(len(room.fabric.nodes), dtype=np.bool_) if mask is None else mask.copy()
    allowed[positions(room.fabric, request.excluded)] = False
    wanted: dict[str, int] = {}
    free: dict[str, int] = {}
    for role, shape in zip(request.roles, shapes_of(request), strict=True):
        for name, column, need in needs(room.free, shape):
            wanted[name] = wanted.get(name, 0) + need * role.workers
            free[name] = int(column[allowed].clip(max=MOST).sum())
    short = [f"{wanted[name]} {name} needed, {free[name]} free" for name in sorted(wanted) if wanted[name] > free[name]]
    text = f"needs {describe(request.roles)}{_within(request.required_level)}{_only(mask)}; "
    text += "; ".join(short) or "; ".join(f"{wanted[name]} of {free[name]} free {name}" for name in sorted(wanted))
    numbers = {f"{name}.wanted": wanted[name] for name in wanted} | {f"{name}.free": free[name] for name in free}
    return Finding(Waiting.CAPACITY if short else Waiting.TOPOLOGY_FRAGMENTED, text, (), numbers)


def _code(room: Room, shape: Shape, request: GangRequest, workers: int, mask: Bools | None = None) -> Waiting:
    """CAPACITY: of some resource there is not enough on all nodes together, with no more on a node than its share
    of the gang may use. Else there is enough, but not where it would serve."""
    allowed = None if mask is None else mask.copy()
    if request.excluded:
        allowed = np.ones(len(room.fabric.nodes), dtype=np.bool_) if allowed is None else allowed
        allowed[positions(room.fabric, request.excluded)] = False
    for _, column, need in needs(room.free, shape):
        part = np.minimum(column, min(need * shape.max_per_node, MOST))
        if (part if allowed is None else part[allowed]).sum() < need * workers:
            return Waiting.CAPACITY
    wish = shape.device
    if wish is not None and (wish.joined or wish.rails or wish.type in room.carded):
        loose = Shape(replace(wish, joined=False, rails=False), shape.cpu_milli, shape.memory, shape.max_per_node)
        plain = Room(room.fabric, room.free, lambda _: [])
        if choose(plain, replace(request, preferred=()), loose, workers, mask) is not None:
            return Waiting.DEVICE_FRAGMENTED
    return Waiting.TOPOLOGY_FRAGMENTED


def _segments(room: Room, table: Table, request: GangRequest, workers: int) -> str:
    """How many whole segments there are, and the largest hole for one."""
    segment = request.segment
    if segment is None:
        return ""
    how = manner(room.fabric, request)
    counts = in_segments(room.fabric, table, how)
    required = room.fabric.depth(request.required_level)
    fit = int(counts[min(required, how.depth)].max(initial=0))
    level = room.fabric.levels[how.depth]
    holes = np.where(level.labelled, table.slots[how.depth], 0)
    most = int(holes.max(initial=0))
    names = ", ".join(level.names[int(domain)] for domain in np.flatnonzero(holes == most)[:4]) if most else "none"
    wanted = workers // segment.size
    return (
        f"; {fit} of {wanted} segments of {segment.size} fit; the largest free {segment.level} holds {most} ({names})"
    )


def _where(room: Room, table: Table, request: GangRequest, depth: int) -> str:
    """What is free, domain by domain, where that is short enough to tell."""
    if not depth or depth == len(room.fabric.levels) - 1:
        return ""
    level, slots = room.fabric.levels[depth], table.slots
    full = [int(domain) for domain in np.flatnonzero(slots[depth] > 0)]
    if not full or len(full) > SHOWN:
        return ""
    parts = []
    for domain in full:
        inside = range(int(level.starts[domain]), int(level.ends[domain]))
        names = [room.fabric.nodes[place] for place in inside if slots[-1][place] > 0]
        listed = f" ({', '.join(names)})" if len(names) <= SHOWN else ""
        parts.append(f"{int(slots[depth][domain])} in {level.names[domain] or 'no ' + level.name}{listed}")
    return f"; room for {int(slots[0][0])}: {' + '.join(parts)}"


def _split(room: Room, shape: Shape) -> str:
    """Nodes with enough devices, but not in one domain of the node."""
    wish = shape.device
    if wish is None:
        return ""
    told = []
    for position in np.flatnonzero(room.free.kind(wish.type) >= wish.count)[:SHOWN]:
        groups = Counter(d.group for d in room.devices(int(position)) if d.type == wish.type)
        sizes = sorted(groups.values(), reverse=True)
        split = f"{' + '.join(map(str, sizes))} over {len(sizes)} {domain_name(wish.type)} domains"
        told.append(f"{room.fabric.nodes[int(position)]} has {sum(sizes)} free {wish.type}, split {split}")
    return "; " + "; ".join(told) if told else ""


def domain_name(kind: str) -> str:
    """What joins devices of a kind inside a node, as its vendor calls it."""
    known = catalogue().get(kind)
    return known.interconnect.upper() if known else "interconnect"


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


def _only(mask: Bools | None) -> str:
    """How many nodes the manifest's selector and lists allow."""
    return "" if mask is None else f" on the {int(mask.sum())} of {len(mask)} nodes that nodeSelector and nodes allow"


def _short(room: Room, shape: Shape, request: GangRequest, workers: int, depth: int, mask: Bools | None = None) -> str:
    """The one resource without which the gang would fit, where that is not the devices."""
    for name, looser, each in (
        ("CPU", Shape(shape.device, 0, shape.memory, shape.max_per_node), format_cpu(shape.cpu_milli)),
        ("memory", Shape(shape.device, shape.cpu_milli, 0, shape.max_per_node), format_memory(shape.memory)),
    ):
        table = usable(room, request, looser, mask)
        if fits(room.fabric, table, workers, depth):
            return f"; {name} is what is short ({each} for each worker)"
    return ""


def _looser(
    room: Room,
    shape: Shape,
    table: Table,
    request: GangRequest,
    workers: int,
    depth: int,
    mask: Bools | None = None,
) -> Iterable[str]:
    """Changes of the manifest, and of what a verdict ruled out, with which the gang would fit now."""
    fabric = room.fabric
    for outer in range(depth - 1, -1, -1):
        if fits(fabric, table, workers, outer):
            name = fabric.levels[outer].name
            yield f"topology.required: {name} has room" if name else "without topology.required there is room"
            break
    several = replace(shape, max_per_node=workers)
    if shape.max_per_node < workers and fits(fabric, usable(room, request, several, mask), workers, depth):
        yield f"there is room with more than {_count(shape.max_per_node, 'worker')} on a node (maxPerNode)"
    if request.excluded and fits(fabric, usable(room, replace(request, excluded=()), shape, mask), workers, depth):
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
        ("on hold", [node.name for node in useful if node.held and not node.cordoned]),
        ("not reachable", [node.name for node in useful if not node.cordoned and not node.held]),
    ):
        if names:
            yield f"{_names(names)} {'is' if len(names) == 1 else 'are'} {state}"


def _names(names: Iterable[str]) -> str:
    """At most four of them."""
    listed = sorted(names)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
