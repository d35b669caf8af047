"""For operators: does every promise hold, and side effects that were given up."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime
from starlette.responses import StreamingResponse

from api import strays, wire
from api.problems import conflict, not_found
from api.replies import reply
from api.services import Asking, Here, Services
from api.views import CheckView, ListView, OutboxView, RebuildView, StrayView
from controller.acts import rebuild
from controller.invariants import findings, observe
from controller.state import AuditEntry, BadValue, IllegalMove, Reader, Taken, Writer
from muster.clock import iso

router = APIRouter(prefix="/admin", tags=["admin"])


@router.get("/check", response_model=CheckView)
def check(here: Here) -> Response:
    """Every invariant on one snapshot of the database. 200 whatever is found; `ok` says whether all hold."""
    with here.store.read() as r:
        seen = observe(r)
    return reply(wire.check(seen.revision, findings(seen, here.clock.now())))


@router.get("/audit", response_class=Response, responses={200: {"content": {"application/jsonl": {}}}})
def audit(
    here: Here,
    since: Annotated[AwareDatetime | None, Query(description="RFC 3339, with a time zone")] = None,
    until: Annotated[AwareDatetime | None, Query(description="RFC 3339; entries before it")] = None,
    namespace: str | None = None,
    actor: str | None = None,
) -> Response:
    """The audit trail as JSON lines, the oldest entry first: who wrote what, and what was refused."""
    span = {"since": since and since.timestamp(), "until": until and until.timestamp()}
    page = functools.partial(here.store.audit, **span, namespace=namespace, actor=actor)
    return StreamingResponse(_lines(page), media_type="application/jsonl")


def _lines(page: Callable[..., list[AuditEntry]]) -> Iterator[bytes]:
    """Each page in a snapshot of its own, so that a long export holds nothing up."""
    after = ""
    while found := page(after=after):
        yield b"".join(msgspec.json.encode(wire.audit_entry(one)) + b"\n" for one in found)
        after = found[-1].uid


@router.get("/rebuild", response_model=RebuildView)
def unknown(here: Here) -> Response:
    """What agents run that the database does not know, after it was lost or restored from a backup."""
    with here.store.read() as r:
        found = [strays.stray(one) for one in rebuild.strays(r.strays())]
        return reply(strays.rebuild(r.cluster(), r.nodes(), r.leases(), found))


@router.post("/rebuild", response_model=RebuildView)
def decide(
    here: Here,
    asking: Asking,
    action: Annotated[Literal["restore", "discard"], Query(description="what becomes of all that is not known")],
    incomplete: Annotated[bool, Query(description="restore gangs of which workers are missing, too")] = False,
    without_silent: Annotated[
        bool, Query(alias="withoutSilent", description="go on although nodes are silent: they are known to run nothing")
    ] = False,
) -> Response:
    """Restore: jobs, attempts and workers are put back as agents run them, each attempt whole or not at all. Discard:
    what is still not known is to be stopped. Either ends the hold; what could not be restored stays on hold. Refused
    (409) while a node that has not been heard of may still run what would be started again."""
    with here.store.read() as r:
        found = rebuild.strays(r.strays())
        if not without_silent:
            _heard_of_all(r, here)
    done = [_restore(here, one, incomplete) if action == "restore" else strays.stray(one) for one in found]

    def end(w: Writer) -> None:
        if action == "discard":
            w.discard_strays()
        rebuild.release(w)
        message = f"{asking.name} asked to {action} what agents run: {len(found)} attempts"
        w.add_event(
            namespace="", kind="Cluster", object_uid="cluster", name="cluster", reason="Rebuilt", message=message
        )

    here.write(end)
    with here.store.read() as r:
        return reply(strays.rebuild(r.cluster(), r.nodes(), r.leases(), done))


def _heard_of_all(r: Reader, here: Services) -> None:
    """Raises Problem 409."""
    cluster = r.cluster()
    names = rebuild.silent(cluster, r.nodes(), r.leases())
    if not names:
        return
    at = rebuild.fenced_at(cluster, r.jobs(live_only=True), here.settings.lease)
    if here.clock.now() >= at:
        return
    wait = "its jobs are never fenced" if at == math.inf else f"wait until {iso(at)}, when its shims have stopped it"
    raise conflict(
        f"{', '.join(names)}: not heard from since everything is on hold, so what they run would run twice; {wait}, or "
        "say --without-silent (withoutSilent=true) when they are known to run nothing",
        code="SILENT_NODES",
    )


def _restore(here: Services, one: rebuild.Stray, incomplete: bool) -> StrayView:
    """In a transaction of its own, so that one whose name or device is gone holds up no other."""
    now = here.clock.now()
    try:
        problem = here.write(lambda w: rebuild.restore(w, one, incomplete=incomplete, now=now))
    except (Taken, IllegalMove, BadValue) as error:
        problem = str(error)
    return strays.stray(one, problem, restored=not problem)


@router.get("/outbox", response_model=ListView[OutboxView])
def outbox(
    here: Here,
    state: Literal["due", "done", "dead"] = "dead",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """Side effects that were promised, the oldest first; without `state` those that were given up."""
    with here.store.read() as r:
        items = [wire.outbox_item(item) for item in r.outbox_items(state, limit)]
        return reply(wire.page("OutboxItem", r.revision(), items))


@router.post("/outbox/{id}/retry", response_model=OutboxView)
def retry(here: Here, id: str) -> Response:  # noqa: A002
    """A dead item is due again at once, with all its tries."""
    revived = here.store.outbox_retry(id)
    item = here.store.outbox_item(id)
    if item is None:
        raise not_found("Outbox item", id)
    if not revived:
        raise conflict(f"outbox item {id} is {item.state}, not dead")
    return reply(wire.outbox_item(item))
