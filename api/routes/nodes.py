"""Nodes: read, cordon, uncordon, drain, their repairs."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import ValidationError

from api import node_wire, show, wire
from api.idempotency import Answer, only_once
from api.node_views import MeasurementView, NodeWorkerView, RepairView
from api.problems import not_found
from api.replies import reply
from api.requests import Document, OnlyOnce
from api.services import Asking, Here, Services
from api.views import ListView, NodeView
from controller.acts.log import node_event
from controller.records import Drain, NodeRecord, Taint
from controller.state import Writer
from muster.resources.parse import field_errors, invalid
from muster.resources.placing import Taints

router = APIRouter(prefix="/nodes", tags=["nodes"])


@router.get("", response_model=ListView[NodeView])
def nodes(here: Here) -> Response:
    """By name."""
    with here.store.read() as r:
        return reply(wire.page("Node", r.revision(), show.nodes(r, r.nodes())))


@router.get("/{name}", response_model=NodeView)
def node(here: Here, name: str) -> Response:
    return _node(here, name, 200)


@router.get("/{name}/repairs", response_model=ListView[RepairView])
def repairs(here: Here, name: str) -> Response:
    """Oldest first, each with its history."""
    with here.store.read() as r:
        if r.node(name) is None:
            raise not_found("Node", name)
        return reply(wire.page("Repair", r.revision(), [node_wire.repair(one) for one in r.repairs(name)]))


@router.get("/{name}/workers", response_model=ListView[NodeWorkerView])
def workers(here: Here, name: str) -> Response:
    """Those that are not known to be over."""
    with here.store.read() as r:
        if r.node(name) is None:
            raise not_found("Node", name)
        live = r.workers_of_node(name)
        attempts = r.attempts_of({one.attempt_uid for one in live})
        items = [node_wire.worker(one, attempts[one.attempt_uid].job_name) for one in live]
        return reply(wire.page("Worker", r.revision(), items))


@router.get("/{name}/measurements", response_model=ListView[MeasurementView])
def measurements(
    here: Here, name: str, limit: Annotated[int, Query(ge=1, le=5000, description="the newest so many")] = 1000
) -> Response:
    """What active checks measured on this node, oldest first."""
    with here.store.read() as r:
        if r.node(name) is None:
            raise not_found("Node", name)
        found = r.measurements(name)[-limit:]
        return reply(wire.page("Measurement", r.revision(), [node_wire.measurement(one) for one in found]))


@router.put("/{name}/taints", response_model=NodeView)
def taint(here: Here, asking: Asking, name: str, document: Document) -> Response:
    """All taints of a node, in the place of those that it has: `{"taints": [{"key": "dedicated", "value": "ml"}]}`. Jobs that
    do not tolerate one do not start there; what runs there goes on."""
    wanted = _taints(document)

    def act(w: Writer) -> None:
        found = w.node(name)
        if found is None:
            raise not_found("Node", name)
        if found.taints != wanted:
            w.patch_node(name, taints=wanted)
            told = ", ".join(f"{one.key}={one.value}" if one.value else one.key for one in wanted) or "none"
            node_event(w, found, "Tainted", f"taints set by {asking.name}: {told}", here.clock.now())

    here.write(act)
    return _node(here, name, 200)


def _taints(document: Any) -> tuple[Taint, ...]:
    """Raises Problem 422."""
    try:
        given = Taints.model_validate(document, by_alias=True, by_name=False).taints
    except ValidationError as error:
        raise invalid(field_errors(Taints, error)) from None
    return tuple(sorted({Taint(one.key, one.value or "") for one in given}))


@router.post("/{name}/drain", response_model=NodeView)
def drain(
    here: Here,
    asking: Asking,
    name: str,
    once: OnlyOnce,
    policy: Annotated[Literal["now", "finish"], Query(description="stop what runs there, or let it finish")] = "now",
    reason: Annotated[str, Query(max_length=300)] = "",
) -> Response:
    """Cordon the node and empty it. `now`: what runs there is told to save and placed elsewhere; `finish`: it may end by
    itself. `uncordon` takes it back."""

    def act(w: Writer) -> Answer:
        found = w.node(name)
        if found is None:
            raise not_found("Node", name)
        now = here.clock.now()
        wish = Drain(by=asking.name, at=now, policy=policy, reason=reason)
        if found.drain is None or (found.drain.by, found.drain.policy, found.drain.reason) != (
            wish.by,
            wish.policy,
            wish.reason,
        ):
            by: dict[str, Any] = (
                {} if found.cordoned else {"cordoned": True, "cordoned_by": asking.name, "cordon_reason": reason}
            )
            w.patch_node(name, drain=wish, **by)
            how = "what runs there is stopped" if policy == "now" else "what runs there may finish"
            message = f"drained by {asking.name}, {how}" + (f": {reason}" if reason else "")
            node_event(w, found, "Draining", message, now)
        return 200, found.uid

    status, _ = only_once(here, once, act)
    return _node(here, name, status)


@router.post("/{name}/{wish}", response_model=NodeView)
def cordon(here: Here, asking: Asking, name: str, wish: Literal["cordon", "uncordon"], once: OnlyOnce) -> Response:
    """A cordoned node takes no new work; what runs on it goes on."""

    def act(w: Writer) -> Answer:
        found = w.node(name)
        if found is None:
            raise not_found("Node", name)
        if found.cordoned != (wish == "cordon") or found.drain is not None or _in_repair(w, found, wish):
            _mark(w, name, wish, asking.name, here.clock.now())
            reason = "Cordoned" if wish == "cordon" else "Uncordoned"
            w.add_event(
                namespace="",
                kind="Node",
                object_uid=found.uid,
                name=name,
                reason=reason,
                message=f"{reason.lower()} by {asking.name}",
            )
        return 200, found.uid

    status, _ = only_once(here, once, act)
    return _node(here, name, status)


def _in_repair(w: Writer, node: NodeRecord, wish: str) -> bool:
    """Whether an uncordon takes back what a repair has in hand."""
    return wish == "uncordon" and bool(w.repairs(node.name, live_only=True))


def _mark(w: Writer, name: str, wish: str, who: str, now: float) -> None:
    """Who uncordons a node takes back a drain, too, and what was wrong with it until now cordons it no more."""
    if wish == "cordon":
        w.patch_node(name, cordoned=True, cordoned_by=who, cordon_reason="")
    else:
        w.patch_node(name, cordoned=False, cordoned_by="", cordon_reason="", drain=None, uncordoned_at=now)


def _node(here: Services, name: str, status: int) -> Response:
    with here.store.read() as r:
        found = r.node(name)
        if found is None:
            raise not_found("Node", name)
        return reply(show.nodes(r, [found])[0], status)
