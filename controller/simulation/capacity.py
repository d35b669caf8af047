"""Which gangs could start now: for each kind of accelerator and each level of the fabric, how many workers with so
many devices fit into one domain of that level."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from controller.scheduling.index import ClusterIndex
from controller.scheduling.placement import best
from controller.scheduling.room import Room, Shape
from controller.scheduling.types import DeviceRequest

CLUSTER = "cluster"
WHOLE = 1_000_000
"""Workers that may share a node: as many as fit."""


class GangRoom(Struct, frozen=True, kw_only=True):
    """At most `workers` workers with `devices` devices each, all in `domain`."""

    devices: int
    workers: int
    domain: str


class LevelRoom(Struct, frozen=True, kw_only=True):
    """One kind at one level. `free` and `total` count devices of the whole cluster."""

    accelerator: str
    level: str
    domains: int
    free: int
    total: int
    gangs: tuple[GangRoom, ...]


def capacity(index: ClusterIndex) -> tuple[LevelRoom, ...]:
    """By kind, and from the outermost level to the node."""
    room = Room(index.fabric, index.free, index.free_devices, index.carded)
    return tuple(found for kind in sorted(index.total.devices) for found in _of_kind(index, room, kind))


def _of_kind(index: ClusterIndex, room: Room, kind: str) -> Iterator[LevelRoom]:
    free, total = (int(columns.kind(kind).sum()) for columns in (index.free, index.total))
    sizes = _sizes(max((int(amount) for amount in index.total.kind(kind)), default=0))
    tables = [(size, room.table(Shape(DeviceRequest(kind, size), 0, 0, WHOLE))) for size in sizes]
    for depth, level in enumerate(index.fabric.levels):
        gangs = []
        for size, table in tables:
            name, workers = best(index.fabric, table, depth) if depth else (CLUSTER, int(table.slots[0][0]))
            gangs.append(GangRoom(devices=size, workers=max(0, workers), domain=name if workers > 0 else ""))
        yield LevelRoom(
            accelerator=kind,
            level=level.name or CLUSTER,
            domains=int(level.labelled.sum()) if depth else 1,
            free=free,
            total=total,
            gangs=tuple(gangs),
        )


def _sizes(most: int) -> Iterable[int]:
    """1, 2, 4 and so on, up to a whole node."""
    sizes = [1]
    while sizes[-1] * 2 <= most:
        sizes.append(sizes[-1] * 2)
    return sizes if most in sizes or not most else [*sizes, most]
