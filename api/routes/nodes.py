"""Nodes: read, cordon, uncordon."""

from typing import Literal

from fastapi import APIRouter, Response

from api import show, wire
from api.idempotency import Answer, only_once
from api.problems import not_found
from api.replies import reply
from api.requests import OnlyOnce
from api.services import Asking, Here, Services
from api.views import ListView, NodeView
from controller.state import Writer

router = APIRouter(prefix="/nodes", tags=["nodes"])


@router.get("", response_model=ListView[NodeView])
def nodes(here: Here) -> Response:
    """By name."""
    with here.store.read() as r:
        return reply(wire.page("Node", r.revision(), show.nodes(r, r.nodes())))


@router.get("/{name}", response_model=NodeView)
def node(here: Here, name: str) -> Response:
    return _node(here, name, 200)


@router.post("/{name}/{wish}", response_model=NodeView)
def cordon(here: Here, asking: Asking, name: str, wish: Literal["cordon", "uncordon"], once: OnlyOnce) -> Response:
    """A cordoned node takes no new work; what runs on it goes on."""

    def act(w: Writer) -> Answer:
        found = w.node(name)
        if found is None:
            raise not_found("Node", name)
        if found.cordoned != (wish == "cordon"):
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
