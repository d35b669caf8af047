"""Questions to the planner that change nothing: what if, and what could start now."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Query, Response

from api import planning, submission
from api.replies import reply
from api.requests import Document
from api.services import Asking, Here, Services
from api.submission import Standing, Submission
from api.views import CapacityView, EtaTimeView, PlacedStartView, ToldView, WaitView, WhatIfView
from controller.records import JobRecord
from controller.simulation.types import Basis
from muster.clock import iso
from muster.problems import FieldError, Problem
from muster.resources.meta import API_VERSION
from muster.states import JOB_TERMINAL

router = APIRouter(tags=["planning"])

FIELDS: Final = ("job", "namespace", "quota", "addNodes", "like", "drain")
_TYPES: Final = {"namespace": str, "quota": dict[str, dict[str, int]], "addNodes": int, "like": str, "drain": list[str]}
_SCHEMA: Final = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "job": {"$ref": "#/components/schemas/Job"},
        "namespace": {"type": "string", "description": "of the job, where its manifest names none"},
        "quota": {
            "type": "object",
            "description": "by queue: devices by kind",
            "additionalProperties": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
        "addNodes": {"type": "integer", "minimum": 0},
        "like": {"type": "string", "description": "the node that the new ones are like"},
        "drain": {"type": "array", "items": {"type": "string"}, "description": "nodes that are emptied"},
    },
}
_BODY: Final = {"requestBody": {"required": True, "content": {"application/json": {"schema": _SCHEMA}}}}


@router.post("/whatif", response_model=WhatIfView, openapi_extra=_BODY)
def what_if(
    here: Here,
    asking: Asking,
    document: Document,
    limit: Annotated[int, Query(ge=1, le=10_000, description="waiting jobs in the answer")] = 1000,
) -> Response:
    """What would start now, and when the rest would, beside how it is today. Nothing is written."""
    question = _question(here, asking.name, document)
    return reply(_answer(planning.ask(here.settings.database_url, {"do": "whatif", **question}), limit))


@router.get("/capacity", response_model=CapacityView)
def capacity(here: Here) -> Response:
    """For each kind of accelerator and each level of the fabric: the largest gangs that could start now inside one
    domain of that level."""
    found = planning.ask(here.settings.database_url, {"do": "capacity"})
    metadata = {"resourceVersion": str(found["revision"])}
    return reply(
        {"apiVersion": API_VERSION, "kind": "Capacity", "metadata": metadata, "at": iso(found["now"])}
        | {"items": found["levels"]}
    )


def _question(here: Services, user: str, document: Any) -> dict[str, Any]:
    """Raises Problem 422 for a body that is no question."""
    if not isinstance(document, Mapping):
        raise _invalid([FieldError("", "expected an object", found=type(document).__name__)])
    errors = [
        FieldError(str(name), "unknown field", found=name, allowed=FIELDS) for name in document if name not in FIELDS
    ]
    for name, kind in _TYPES.items():
        try:
            msgspec.convert(document.get(name, kind() if kind in (int, str) else {} if name == "quota" else []), kind)
        except msgspec.ValidationError as error:
            errors.append(FieldError(name, str(error)))
    if not any(document.get(name) for name in FIELDS if name != "namespace"):
        errors.append(FieldError("", "nothing would be changed: name a job, quota, addNodes with like, or drain"))
    if errors:
        raise _invalid(errors)
    question = {name: document[name] for name in ("quota", "addNodes", "like", "drain") if name in document}
    if document.get("job") is not None:
        job = document["job"]
        metadata = job.get("metadata") if isinstance(job, Mapping) else None
        own = metadata.get("namespace") if isinstance(metadata, Mapping) else None
        question["job"] = _job(here, user, job, str(own or document.get("namespace") or "default"))
    return question


def _job(here: Services, user: str, document: Any, namespace: str) -> JobRecord:
    """The record as it would be: a new one, or the live one of this name with another spec. Raises Problem."""
    manifest = submission.manifest(document, namespace)
    asked = Submission(job=manifest, user=user, uid=here.new_id(), now=here.clock.now(), ground=here.inventory.ground())
    record = submission.record_of(asked)
    with here.store.read() as r:
        standing, live = Standing.of(r, [asked]), r.job_named(namespace, manifest.metadata.name)
    if live is not None and live.phase not in JOB_TERMINAL:
        record = msgspec.structs.replace(record, uid=live.uid, queued_at=live.queued_at, epoch=live.epoch)
    return standing.judge(record, asked.ground)


def _invalid(errors: list[FieldError]) -> Problem:
    return Problem(422, "INVALID", "The request is not valid", errors=tuple(errors))


def _answer(found: Any, limit: int) -> WhatIfView:
    names = {uid: {"namespace": one[0], "name": one[1]} for uid, one in found["names"].items()}
    starts: list[PlacedStartView] = [
        {**names[start["job_uid"]], "nodes": _nodes(start["workers"]), "domain": start["domain"]}  # type: ignore[typeddict-item]
        for start in (group["start"] for group in found["plan"]["groups"])
    ]
    evictions = [
        {**names[one["job_uid"]], "victims": [names[victim["job_uid"]] for victim in one["victims"]]}
        for one in found["plan"]["evictions"]
    ]
    why = found["why"]
    return {
        "apiVersion": API_VERSION,
        "kind": "WhatIf",
        "metadata": {"resourceVersion": str(found["revision"])},
        "at": iso(found["now"]),
        "starts": starts,
        "evictions": evictions,  # type: ignore[typeddict-item]
        "waiting": len(found["jobs"]),
        "jobs": [_told(one) for one in found["jobs"][:limit]],
        "why": _why(why) if why else None,
    }


def _why(wait: dict[str, Any]) -> WaitView:
    return {
        "code": wait["code"],
        "message": wait["message"],
        "others": wait["others"],
        "helps": wait["helps"],
        "numbers": wait["numbers"],
    }


def _nodes(workers: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(worker["node"] for worker in workers))


def _told(one: dict[str, Any]) -> ToldView:
    return {
        "namespace": one["namespace"],
        "name": one["name"],
        "today": _eta(one["today"]),
        "then": _eta(one["then"]),
    }


def _eta(eta: dict[str, Any] | None) -> EtaTimeView | None:
    if eta is None:
        return None
    bound = eta["basis"] == Basis.BOUND
    return {"at": iso(eta["at"]), "bound": bound, "basis": eta["basis"], "note": eta.get("note", "")}
