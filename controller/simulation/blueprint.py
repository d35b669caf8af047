"""A cluster on paper: groups of like nodes on a fabric, and queues, out of a document; or as the API shows a live one."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from controller.records import NodeRecord, QueueRecord, Record
from controller.scheduling.fabric import DEFAULT_LEVELS
from muster.accelerators import canonical
from muster.protocol import Device
from muster.quantity import parse_cpu, parse_memory

MOST = 1_000_000
LABEL = "muster.dev/"


class Blueprint(Struct, frozen=True):
    records: list[Record]
    levels: tuple[str, ...]


class BadBlueprint(ValueError):
    """What is wrong with the document, and where."""


class _Kind(Struct, forbid_unknown_fields=True):
    type: str
    count: int
    groups: int = 1


class _Group(Struct, forbid_unknown_fields=True):
    """`fabric`: how many nodes share a domain of the innermost level, how many of these one of the next, and so on."""

    name: str
    count: int
    accelerators: list[_Kind] = []
    cpu: str | int | float = 1024
    memory: str | int = "16Ti"
    labels: dict[str, str] = {}
    fabric: dict[str, int] = {}


class _Document(Struct, forbid_unknown_fields=True):
    nodes: list[_Group]
    levels: tuple[str, ...] = DEFAULT_LEVELS
    queues: list[dict[str, Any]] = []


def from_document(document: Any) -> Blueprint:
    """Raises BadBlueprint."""
    if isinstance(document, Mapping) and "live" in document:
        return _live(document["live"])
    try:
        found = msgspec.convert(document, _Document)
    except msgspec.ValidationError as error:
        raise BadBlueprint(str(error)) from None
    names = [group.name for group in found.nodes]
    for name in names:
        if names.count(name) > 1:
            raise BadBlueprint(f"nodes: two groups are called {name}")
    records: list[Record] = [node for group in found.nodes for node in _nodes(group, found.levels)]
    if not records:
        raise BadBlueprint("nodes: expected at least one node")
    return Blueprint([*records, *_queues(found.queues)], found.levels)


def _nodes(group: _Group, levels: tuple[str, ...]) -> Iterator[NodeRecord]:
    where = f"nodes, group {group.name}"
    if not 0 <= group.count <= MOST:
        raise BadBlueprint(f"{where}: count: expected 0 to {MOST}, found {group.count}")
    for level, size in group.fabric.items():
        if level not in levels:
            raise BadBlueprint(f"{where}: fabric: unknown level {level!r}; levels: {', '.join(levels)}")
        if size < 1:
            raise BadBlueprint(f"{where}: fabric: {level}: expected at least 1, found {size}")
    try:
        cpu, memory = parse_cpu(str(group.cpu)), parse_memory(str(group.memory))
    except ValueError as error:
        raise BadBlueprint(f"{where}: {error}") from None
    devices = tuple(_devices(group, where))
    for number in range(group.count):
        name = f"{group.name}-{number}"
        labels = {**_path(group, levels, number), **group.labels}
        yield NodeRecord(name=name, uid=name, host=name, labels=labels, cpu_milli=cpu, memory=memory, devices=devices)


def _devices(group: _Group, where: str) -> Iterator[Device]:
    index = 0
    for kind in group.accelerators:
        if not 1 <= kind.count <= 1024 or not 1 <= kind.groups <= kind.count:
            raise BadBlueprint(f"{where}: {kind.type}: expected 1 to 1024 devices in 1 to as many groups")
        for number in range(kind.count):
            inner = number * kind.groups // kind.count
            yield Device(index=index, type=canonical(kind.type) or kind.type.lower(), group=inner, virtual=True)
            index += 1


def _path(group: _Group, levels: tuple[str, ...], number: int) -> dict[str, str]:
    """Labels from the innermost level out: each is so many of the one inside it."""
    labels, place = {}, number
    for level in reversed(levels):
        if level in group.fabric:
            place //= group.fabric[level]
            labels[LABEL + level] = f"{group.name}-{level}-{place}"
    return labels


def _queues(specs: list[dict[str, Any]]) -> Iterator[QueueRecord]:
    names = set()
    for number, spec in enumerate(specs):
        name = spec.get("name")
        if not isinstance(name, str) or not name:
            raise BadBlueprint(f"queues[{number}]: name: expected a name, found {name!r}")
        quota = spec.get("quota", {})
        if not isinstance(quota, dict) or not all(isinstance(n, int) and n >= 0 for n in quota.values()):
            raise BadBlueprint(f"queues[{number}]: quota: expected devices by kind, e.g. {{h100: 64}}, found {quota!r}")
        names.add(name)
        yield QueueRecord(name=name, uid=f"queue-{name}", spec={key: spec[key] for key in spec if key != "name"})
    if "default" not in names:
        yield QueueRecord(name="default", uid="queue-default")


def _live(shown: Any) -> Blueprint:
    """Nodes and queues as the API answers them."""
    records: list[Record] = []
    for node in shown["nodes"]:
        status, metadata = node["status"], node["metadata"]
        fields = ("index", "type", "group", "healthy", "virtual")
        devices = tuple(Device(**{name: one[name] for name in fields if name in one}) for one in status["devices"])
        records.append(
            NodeRecord(
                name=metadata["name"],
                uid=metadata["name"],
                host=metadata["name"],
                labels=metadata.get("labels") or {},
                cordoned=node["spec"]["cordoned"],
                cpu_milli=parse_cpu(status["cpu"]),
                memory=parse_memory(status["memory"]),
                devices=devices,
            )
        )
    if not records:
        raise BadBlueprint("the cluster has no nodes")
    named = [{"name": queue["metadata"]["name"], **queue["spec"]} for queue in shown["queues"]]
    return Blueprint([*records, *_queues(named)], DEFAULT_LEVELS)
