"""Queues: create, replace, read, delete."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Response
from msgspec.structs import replace

from api import show, wire
from api.idempotency import Answer, only_once
from api.problems import conflict, not_found
from api.replies import reply
from api.requests import Document, OnlyOnce, body_of
from api.services import Here, Services
from api.views import ListView, QueueView
from controller.records import QueueRecord
from controller.state import Writer
from muster.problems import FieldError
from muster.resources.parse import invalid, parse
from muster.resources.queue import Queue

router = APIRouter(prefix="/queues", tags=["queues"])


@router.get("", response_model=ListView[QueueView])
def queues(here: Here) -> Response:
    """By name."""
    with here.store.read() as r:
        return reply(wire.page("Queue", r.revision(), show.queues(r, r.queues(), here.store.forecasts.scored())))


@router.get("/{name}", response_model=QueueView)
def queue(here: Here, name: str) -> Response:
    return _queue(here, name, 200)


@router.post("", status_code=201, response_model=QueueView, openapi_extra=body_of("Queue"))
def create(here: Here, document: Document, once: OnlyOnce) -> Response:
    wanted = _manifest(document)

    def act(w: Writer) -> Answer:
        if w.queue(wanted.metadata.name) is not None:
            raise conflict(f"there is a queue {wanted.metadata.name} already", code="ALREADY_EXISTS")
        return 201, w.put_queue(_record(here, wanted)).uid

    status, _ = only_once(here, once, act)
    return _queue(here, wanted.metadata.name, status)


@router.put("/{name}", response_model=QueueView, openapi_extra=body_of("Queue"))
def apply(here: Here, name: str, document: Document) -> Response:
    """Create or replace. The header `Muster-Result` says created, configured or unchanged."""
    wanted = _manifest(document, name)

    def act(w: Writer) -> str:
        found, new = w.queue(name), _record(here, wanted)
        if found is None:
            w.put_queue(new)
            return "created"
        version = wanted.metadata.resource_version
        if version is not None and version != str(found.revision):
            raise conflict(f"queue {name} was changed meanwhile: it is at version {found.revision}, not {version}")
        if (found.spec, found.labels) == (new.spec, new.labels):
            return "unchanged"
        w.put_queue(replace(found, spec=new.spec, labels=new.labels, generation=found.generation + 1))
        return "configured"

    result = here.write(act)
    return _queue(here, name, 201 if result == "created" else 200, Muster_Result=result)


@router.delete("/{name}", response_model=QueueView)
def delete(here: Here, name: str) -> Response:
    """Only when no live job is in it. The default queue stays."""

    def act(w: Writer) -> QueueView:
        found = w.queue(name)
        if found is None:
            raise not_found("Queue", name)
        if name == "default":
            raise conflict("the default queue stays: jobs that name none are in it")
        if live := w.jobs(queue=name, live_only=True, limit=1):
            raise conflict(f"job {live[0].namespace}/{live[0].name} is in queue {name}, and it is live")
        last = show.queues(w, [found])[0]
        w.delete_queue(name)
        return last

    return reply(here.write(act))


def ensure_default(w: Writer, uid: str, now: float) -> None:
    if w.queue("default") is None:
        spec = Queue.model_validate({"metadata": {"name": "default"}}).spec.wire()
        w.put_queue(QueueRecord(name="default", uid=uid, spec=spec, created_at=now))


def _manifest(document: Any, name: str | None = None) -> Queue:
    """Raises Problem 422."""
    if isinstance(document, Mapping):
        document = {key: value for key, value in document.items() if key != "status"}
    resource = parse(document)
    if not isinstance(resource, Queue):
        raise invalid([FieldError("kind", "expected a Queue here", found=resource.kind, allowed=("Queue",))])
    found = resource.metadata.name
    if name is not None and found != name:
        raise invalid([FieldError("metadata.name", f"differs from the address it was sent to ({name})", found=found)])
    return resource


def _record(here: Services, wanted: Queue) -> QueueRecord:
    return QueueRecord(
        name=wanted.metadata.name,
        uid=here.new_id(),
        spec=wanted.spec.wire(),
        labels=wanted.metadata.labels,
        created_at=here.clock.now(),
    )


def _queue(here: Services, name: str, status: int, **headers: str) -> Response:
    with here.store.read() as r:
        found = r.queue(name)
        if found is None:
            raise not_found("Queue", name)
        return reply(show.queues(r, [found], here.store.forecasts.scored())[0], status, **headers)
