"""The tree of the queues: whether a queue may stand where it says, and whether there is what it was given."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from controller.records import QueueRecord
from muster.problems import FieldError, nearest

if TYPE_CHECKING:
    from controller.scheduling.index import ClusterIndex


def parent_error(queue: QueueRecord, others: Iterable[QueueRecord]) -> FieldError | None:
    """The error to refuse a queue with whose parent does not exist, or lies below itself."""
    known = {one.name: one.spec.get("parent") for one in others} | {queue.name: queue.spec.get("parent")}
    parent = queue.spec.get("parent")
    if parent is None:
        return None
    if parent not in known:
        allowed = tuple(sorted(name for name in known if name != queue.name))
        return FieldError("spec.parent", "unknown queue", "UNKNOWN", parent, allowed, nearest(parent, allowed))
    line = [queue.name]
    while (above := known.get(line[-1])) is not None:
        if above in line:
            way = " -> ".join([*line[line.index(above) :], above])
            return FieldError("spec.parent", f"goes in a circle: {way} (each is a part of the next)", "CIRCLE", parent)
        line.append(above)
    return None


def unbacked(queue: QueueRecord, others: Iterable[QueueRecord], index: "ClusterIndex") -> list[str]:
    """A warning for each kind of which all quota together is more than the nodes have."""
    quotas = {one.name: one.spec.get("quota") or {} for one in others} | {queue.name: queue.spec.get("quota") or {}}
    found = []
    for kind in quotas[queue.name]:
        given = sum(quota.get(kind, 0) for quota in quotas.values())
        there = int(index.total.kind(kind).sum())
        if given > there:
            found.append(f"QUOTA: the queues' quota of {kind} is {given} together, and the nodes have {there}")
    return found
