"""Priority classes, reservations and maintenance windows: create, replace, read, delete."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Response
from msgspec import Struct
from msgspec.structs import replace

from api import wire
from api.idempotency import Answer, only_once
from api.problems import conflict, not_found
from api.replies import reply
from api.requests import Document, DryRun, OnlyOnce, body_of
from api.services import Here, Services
from api.views import ListView, PolicyView
from controller.records import MaintenanceWindowRecord, PolicyRecord, PriorityClassRecord, ReservationRecord
from controller.state import Reading, Writer
from muster.clock import from_iso
from muster.priority import BUILTIN_CLASSES
from muster.problems import FieldError
from muster.quantity import parse_duration
from muster.resources.parse import invalid, parse
from muster.resources.policy import MaintenanceWindow, Policy, PriorityClass, Reservation


class Kind(Struct, frozen=True):
    """One kind: its resource, its record, what it is called in paths."""

    resource: type[Policy]
    record: type[PolicyRecord]
    plural: str

    @property
    def name(self) -> str:
        return self.resource.__name__


KINDS: Final = (
    Kind(PriorityClass, PriorityClassRecord, "priorityclasses"),
    Kind(Reservation, ReservationRecord, "reservations"),
    Kind(MaintenanceWindow, MaintenanceWindowRecord, "maintenancewindows"),
)


def _routes(kind: Kind) -> APIRouter:
    made = APIRouter(prefix=f"/{kind.plural}", tags=[kind.plural])

    @made.get("", response_model=ListView[PolicyView], operation_id=f"list_{kind.plural}")
    def listed(here: Here) -> Response:
        """By name."""
        with here.store.read() as r:
            return reply(wire.page(kind.name, r.revision(), [wire.policy(one) for one in r.policies(kind.record)]))

    @made.get("/{name}", response_model=PolicyView, operation_id=f"get_{kind.plural}")
    def one(here: Here, name: str) -> Response:
        return _shown(here, kind, name, 200)

    @made.post(
        "",
        status_code=201,
        response_model=PolicyView,
        openapi_extra=body_of(kind.name),
        operation_id=f"create_{kind.plural}",
    )
    def create(here: Here, document: Document, once: OnlyOnce) -> Response:
        wanted = _manifest(kind, document)

        def act(w: Writer) -> Answer:
            if w.policy(kind.record, wanted.metadata.name) is not None:
                raise conflict(f"there is a {kind.name} {wanted.metadata.name} already", code="ALREADY_EXISTS")
            return 201, w.put_policy(_record(here, kind, wanted)).uid

        status, _ = only_once(here, once, act)
        return _shown(here, kind, wanted.metadata.name, status)

    @made.put(
        "/{name}", response_model=PolicyView, openapi_extra=body_of(kind.name), operation_id=f"apply_{kind.plural}"
    )
    def apply(here: Here, name: str, document: Document, dry_run: DryRun = False) -> Response:
        """Create or replace. The header `Muster-Result` says created, configured or unchanged."""
        wanted = _manifest(kind, document, name)
        if dry_run:
            with here.store.read() as r:
                result, new = _changed(r, here, kind, wanted)
                return reply(wire.policy(new, here.clock.now()), Muster_Result=result)
        result = here.write(lambda w: _apply(w, here, kind, wanted))
        return _shown(here, kind, name, 201 if result == "created" else 200, Muster_Result=result)

    @made.delete("/{name}", response_model=PolicyView, operation_id=f"delete_{kind.plural}")
    def delete(here: Here, name: str) -> Response:
        """A priority class only when no live job has it; those that exist by themselves stay."""
        return reply(here.write(lambda w: _delete(w, kind, name)))

    return made


router = APIRouter()
for _kind in KINDS:
    router.include_router(_routes(_kind))


def ensure_builtin(w: Writer, new_id: Any, now: float) -> None:
    """The priority classes that exist without being made."""
    for name, value in BUILTIN_CLASSES.items():
        if w.policy(PriorityClassRecord, name) is None:
            made = PriorityClass.model_validate({"metadata": {"name": name}, "spec": {"value": value}})
            w.put_policy(PriorityClassRecord(name=name, uid=new_id(), spec=made.spec.wire(), created_at=now))


def _apply(w: Writer, here: Services, kind: Kind, wanted: Policy) -> str:
    result, new = _changed(w, here, kind, wanted)
    if result != "unchanged":
        w.put_policy(new)
    return result


def _changed(r: Reading, here: Services, kind: Kind, wanted: Policy) -> tuple[str, PolicyRecord]:
    """created, configured or unchanged, and the record as it shall be. Raises Problem 409."""
    name, new = wanted.metadata.name, _record(here, kind, wanted)
    found = r.policy(kind.record, name)
    if found is None:
        return "created", new
    version = wanted.metadata.resource_version
    if version is not None and version != str(found.revision):
        raise conflict(f"{kind.name} {name} was changed meanwhile: it is at version {found.revision}, not {version}")
    if (found.spec, found.labels) == (new.spec, new.labels):
        return "unchanged", found
    kept = found if found.spec == new.spec else new  # a span that began when it was made begins no second time
    times = {field: getattr(kept, field) for field in ("starts_at", "ends_at") if hasattr(kept, field)}
    changed = replace(found, spec=new.spec, labels=new.labels, generation=found.generation + 1, **times)
    return "configured", changed


def _delete(w: Writer, kind: Kind, name: str) -> PolicyView:
    found = w.policy(kind.record, name)
    if found is None:
        raise not_found(kind.name, name)
    if isinstance(found, PriorityClassRecord):
        if name in BUILTIN_CLASSES:
            raise conflict(f"priority class {name} stays: it exists by itself")
        users = (job for job in w.jobs(live_only=True) if job.spec.get("priorityClass") == name)
        if (job := next(users, None)) is not None:
            raise conflict(f"job {job.namespace}/{job.name} has priority class {name}, and it is live")
    last = wire.policy(found)
    w.delete_policy(kind.record, name)
    return last


def _manifest(kind: Kind, document: Any, name: str | None = None) -> Policy:
    """Raises Problem 422."""
    if isinstance(document, Mapping):
        document = {key: value for key, value in document.items() if key != "status"}
    resource = parse(document)
    if not isinstance(resource, kind.resource):
        error = FieldError("kind", f"expected a {kind.name} here", found=resource.kind, allowed=(kind.name,))
        raise invalid([error])
    found = resource.metadata.name
    if name is not None and found != name:
        raise invalid([FieldError("metadata.name", f"differs from the address it was sent to ({name})", found=found)])
    return resource


def _record(here: Services, kind: Kind, wanted: Policy) -> PolicyRecord:
    """Raises Problem 422 when it would be over before it begins."""
    now = here.clock.now()
    fields: dict[str, Any] = {
        "name": wanted.metadata.name,
        "uid": here.new_id(),
        "spec": wanted.spec.wire(),
        "labels": wanted.metadata.labels,
        "created_at": now,
    }
    if not isinstance(wanted, PriorityClass):
        span = wanted.spec
        starts = from_iso(span.start) if span.start else now
        ends = from_iso(span.end) if span.end else starts + parse_duration(span.duration or "0s")
        if ends <= starts:
            raise invalid([FieldError("spec.end", "is not after its start", found=span.end)])
        fields |= {"starts_at": starts, "ends_at": ends}
    return kind.record(**fields)


def _shown(here: Services, kind: Kind, name: str, status: int, **headers: str) -> Response:
    with here.store.read() as r:
        found = r.policy(kind.record, name)
        if found is None:
            raise not_found(kind.name, name)
        return reply(wire.policy(found, here.clock.now()), status, **headers)
