"""Queues: create, replace, read, delete."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Response
from msgspec.structs import replace

from api import show, wire
from api.idempotency import Answer, only_once
from api.problems import conflict, not_found
from api.replies import reply
from api.requests import Document, DryRun, OnlyOnce, body_of
from api.services import Here, Services
from api.tree import parent_error, unbacked
from api.views import ListView, QueueView
from controller.records import QueueRecord
from controller.state import Reading, Writer
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
        return 201, w.put_queue(_placed(w, _record(here, wanted))).uid

    status, _ = only_once(here, once, act)
    return _queue(here, wanted.metadata.name, status)


@router.put("/{name}", response_model=QueueView, openapi_extra=body_of("Queue"))
def apply(here: Here, name: str, document: Document, dry_run: DryRun = False) -> Response:
    """Create or replace. The header `Muster-Result` says created, configured or unchanged."""
    wanted = _manifest(document, name)
    if dry_run:
        with here.store.read() as r:
            result, new = _changed(r, here, wanted)
            return reply(_shown(r, here, new), Muster_Result=result)

    def act(w: Writer) -> str:
        result, new = _changed(w, here, wanted)
        if result != "unchanged":
            w.put_queue(new)
        return result

    result = here.write(act)
    return _queue(here, name, 201 if result == "created" else 200, Muster_Result=result)


@router.delete("/{name}", response_model=QueueView)
def delete(here: Here, name: str) -> Response:
    """Only when no live job and no other queue is in it. The default queue stays."""

    def act(w: Writer) -> QueueView:
        found = w.queue(name)
        if found is None:
            raise not_found("Queue", name)
        if name == "default":
            raise conflict("the default queue stays: jobs that name none are in it")
        if live := w.jobs(queue=name, live_only=True, limit=1):
            raise conflict(f"job {live[0].namespace}/{live[0].name} is in queue {name}, and it is live")
        if below := [one.name for one in w.queues() if one.spec.get("parent") == name]:
            raise conflict(f"queue {below[0]} is a part of {name}")
        last = show.queues(w, [found])[0]
        w.delete_queue(name)
        return last

    return reply(here.write(act))


def _changed(r: Reading, here: Services, wanted: Queue) -> tuple[str, QueueRecord]:
    """created, configured or unchanged, and the record as it shall be. Raises Problem 409 or 422."""
    name, new = wanted.metadata.name, _record(here, wanted)
    found = r.queue(name)
    if found is None:
        return "created", _placed(r, new)
    version = wanted.metadata.resource_version
    if version is not None and version != str(found.revision):
        raise conflict(f"queue {name} was changed meanwhile: it is at version {found.revision}, not {version}")
    if (found.spec, found.labels) == (new.spec, new.labels):
        return "unchanged", found
    changed = replace(found, spec=new.spec, labels=new.labels, generation=found.generation + 1)
    return "configured", _placed(r, changed)


def _placed(r: Reading, record: QueueRecord) -> QueueRecord:
    """Raises Problem 422 when it cannot stand where it says in the tree."""
    if (error := parent_error(record, r.queues())) is not None:
        raise invalid([error])
    return record


def _shown(r: Reading, here: Services, record: QueueRecord) -> QueueView:
    view = show.queues(r, [record], here.store.forecasts.scored())[0]
    if record.spec.get("quota"):
        view["status"]["warnings"] = unbacked(record, r.queues(), here.inventory.ground().index)
    return view


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
        return reply(_shown(r, here, found), status, **headers)
