"""Nodes that are set aside for a while: advance reservations for some, maintenance windows for nobody.

A gang that is not meant may not start there while it lasts, and before it only when its time limit ends it in time. What runs is left
alone, save where a window says that it is to be stopped. A reservation of so many nodes takes those that will be free of others soonest.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from controller.records import MaintenanceWindowRecord, ReservationRecord, Taint
from controller.scheduling.columns import takes_work
from controller.scheduling.fabric import Bools
from controller.scheduling.requests import device_type
from controller.scheduling.tables import positions
from controller.scheduling.types import GangRequest, Stop

if TYPE_CHECKING:
    from controller.scheduling.cycle import Cycle

NAMED = 4


class Aside(Struct, frozen=True, eq=False):
    """One span in which these nodes are for `who` alone (None: for nobody)."""

    name: str
    starts_at: float
    ends_at: float
    who: Mapping[str, Any] | None
    nodes: Bools
    taint: Taint | None = None
    """It is no span of time, but this taint."""

    def told(self, cycle: "Cycle", limit: float | None) -> str:
        """Why a gang may not use them, with the numbers."""
        names = [cycle.fabric.nodes[int(place)] for place in np.flatnonzero(self.nodes)]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        what = "under maintenance" if self.who is None else "reserved"
        where = f"{', '.join(names[:NAMED])}{more}"
        if self.taint is not None:
            return f"{where} {'is' if len(names) == 1 else 'are'} tainted with {self.name}, which it does not tolerate"
        if self.starts_at <= cycle.now:
            return f"{where} are {what} ({self.name}) for another {_minutes(self.ends_at - cycle.now)} min"
        mine = "it has no time limit" if limit is None else f"its limit is {_minutes(limit)} min"
        return f"{where} are {what} ({self.name}) in {_minutes(self.starts_at - cycle.now)} min, and {mine}"


def asides(cycle: "Cycle") -> tuple[Aside, ...]:
    """All that are not over, by name."""
    index = cycle.index
    found = [_reserved(cycle, one) for one in index.reservations.values() if one.ends_at > cycle.now]
    found += [_maintained(cycle, one) for one in index.windows.values() if one.ends_at > cycle.now]
    found += _tainted(cycle)
    return tuple(sorted(found, key=lambda one: (one.name, one.who is None)))


def bars(cycle: "Cycle", request: GangRequest, all_of_them: Sequence[Aside]) -> tuple[int, ...]:
    """The places of those that keep this gang off their nodes now."""
    job = cycle.index.jobs.get(request.job_uid)
    own = {"namespaces": request.namespace, "queues": request.queue, "users": job.user if job else ""}
    return tuple(
        place
        for place, one in enumerate(all_of_them)
        if not (_tolerated(one.taint, request) if one.taint is not None else _meant(one, own))
        and (one.starts_at <= cycle.now or request.limit is None or cycle.now + request.limit > one.starts_at)
    )


def stops(cycle: "Cycle") -> tuple[Stop, ...]:
    """Gangs that still run where a window has begun that stops them."""
    windows = [
        one
        for one in cycle.index.windows.values()
        if one.starts_at <= cycle.now < one.ends_at and one.spec.get("running") == "stop"
    ]
    found: dict[str, Stop] = {}
    for window in sorted(windows, key=lambda one: one.name):
        mask = _maintained(cycle, window).nodes
        for uid, crew in sorted(cycle.crews.items()):
            nodes = (cycle.fabric.positions.get(worker.node) for worker in crew.workers)
            if not crew.leaving and uid not in found and any(place is not None and mask[place] for place in nodes):
                message = f"maintenance {window.name} begins on its nodes"
                found[uid] = Stop(job_uid=uid, attempt_uid=crew.attempt.uid, message=message)
    return tuple(found[uid] for uid in sorted(found))


def dates(cycle: "Cycle", waiting: bool) -> Iterable[float]:
    """When one begins or is over."""
    for one in cycle.aside:
        if one.taint is not None:
            continue
        if waiting:
            yield one.ends_at
        yield one.starts_at


def _tainted(cycle: "Cycle") -> list[Aside]:
    """The nodes of each taint."""
    nodes: dict[Taint, list[str]] = {}
    for name in cycle.index.tainted:
        for taint in cycle.index.nodes[name].taints:
            nodes.setdefault(taint, []).append(name)
    found = []
    for taint, names in nodes.items():
        mask = np.zeros(len(cycle.fabric.nodes), dtype=np.bool_)
        mask[positions(cycle.fabric, names)] = True
        name = f"{taint.key}={taint.value}" if taint.value else taint.key
        found.append(Aside(name, -math.inf, math.inf, None, mask, taint))
    return found


def _tolerated(taint: Taint, request: GangRequest) -> bool:
    return any(key == taint.key and value in (None, taint.value) for key, value in request.tolerates)


def _meant(one: Aside, own: Mapping[str, str]) -> bool:
    return one.who is not None and any(value in (one.who.get(what) or ()) for what, value in own.items())


def _reserved(cycle: "Cycle", record: ReservationRecord) -> Aside:
    spec, fabric = record.spec, cycle.fabric
    names = spec.get("nodes")
    if names is None:
        names = _chosen(cycle, record)
    mask = np.zeros(len(fabric.nodes), dtype=np.bool_)
    mask[positions(fabric, names)] = True
    return Aside(record.name, record.starts_at, record.ends_at, spec.get("who") or {}, mask)


def _maintained(cycle: "Cycle", record: MaintenanceWindowRecord) -> Aside:
    spec, fabric = record.spec, cycle.fabric
    mask = np.zeros(len(fabric.nodes), dtype=np.bool_)
    mask[positions(fabric, spec.get("nodes") or ())] = True
    labels = spec.get("nodeSelector") or {}
    if labels:
        found = (name for name, node in cycle.index.nodes.items() if labels.items() <= node.labels.items())
        mask[positions(fabric, found)] = True
    return Aside(record.name, record.starts_at, record.ends_at, None, mask)


def _chosen(cycle: "Cycle", record: ReservationRecord) -> list[str]:
    """So many nodes, in one domain where a level is named: those of which others will be gone in time, by name."""
    spec, fabric = record.spec, cycle.fabric
    late = _late(cycle, record)
    kind = device_type(spec["accelerator"]) if spec.get("accelerator") else None
    able = [
        name
        for name, node in cycle.index.nodes.items()
        if takes_work(node) and (kind is None or any(device.type == kind for device in node.devices))
    ]
    level = fabric.levels[fabric.depth(spec["level"])] if spec.get("level") else None
    domains: dict[int, list[str]] = {}
    for name in sorted(able, key=lambda name: (name in late, name)):
        domains.setdefault(int(level.of[fabric.positions[name]]) if level else 0, []).append(name)
    return min(
        (names[: spec["size"]] for names in domains.values()),
        key=lambda names: (-len(names), sum(name in late for name in names), names),
        default=[],
    )


def _late(cycle: "Cycle", record: ReservationRecord) -> set[str]:
    """Nodes on which others may still run when it begins."""
    begins, who = max(cycle.now, record.starts_at), record.spec.get("who") or {}
    late = set()
    for uid, crew in cycle.crews.items():
        job = cycle.index.jobs.get(uid)
        own = {"namespaces": crew.request.namespace, "queues": crew.request.queue, "users": job.user if job else ""}
        over = crew.ends is not None and crew.ends <= begins
        if not over and not any(value in (who.get(what) or ()) for what, value in own.items()):
            late |= {worker.node for worker in crew.workers}
    return late


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.4g}"
