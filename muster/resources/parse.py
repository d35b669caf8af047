"""From a document to a resource, or to errors that say where, what was found, what is allowed, what was meant."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from muster.problems import FieldError, Problem, nearest
from muster.resources.job import Job
from muster.resources.meta import API_VERSION
from muster.resources.policy import MaintenanceWindow, Policy, PriorityClass, Reservation
from muster.resources.queue import Queue

Resource = Job | Queue | Policy

KINDS: Final[dict[str, type[Resource]]] = {
    "Job": Job,
    "Queue": Queue,
    "PriorityClass": PriorityClass,
    "Reservation": Reservation,
    "MaintenanceWindow": MaintenanceWindow,
}


LATER: Final = {
    "spec.resources": "only cpu, memory and accelerators are counted; other resources are not yet",
    "spec.volumes": "there are no volumes; folders of the node come into a container by mounts",
    "spec.secrets": "secrets are not handed out yet",
    "spec.service": "services are not run yet",
    "spec.recovery.hangAfter": "hangs are not ended by a time of their own yet",
    "spec.recovery.spares": "spares are not kept yet",
    "spec.notify.to": "say an address as webhook",
    "spec.idlePolicy": "idle jobs are not acted upon yet",
}
"""What people know from elsewhere and is not acted upon here: refused in words, for an accepted field is a promise."""


def parse(document: object) -> Resource:
    """The resource in `document`. Raises Problem (status 422) with one FieldError for each finding."""
    if not isinstance(document, Mapping):
        raise invalid(
            [FieldError("", "expected a mapping with apiVersion, kind, metadata and spec", found=_short(document))]
        )
    kind = document.get("kind")
    errors = []
    if document.get("apiVersion") != API_VERSION:
        found = document.get("apiVersion")
        errors.append(
            FieldError(
                "apiVersion",
                "unknown" if found else "required",
                found=found,
                allowed=(API_VERSION,),
                suggestion=API_VERSION,
            )
        )
    if not isinstance(kind, str) or kind not in KINDS:
        errors.append(
            FieldError(
                "kind",
                "unknown kind" if kind else "required",
                found=_short(kind),
                allowed=tuple(KINDS),
                suggestion=nearest(str(kind), KINDS),
            )
        )
        raise invalid(errors)
    model = KINDS[str(kind)]
    try:
        known = {"metadata": {}, **document, "apiVersion": API_VERSION}
        resource = model.model_validate(known, by_alias=True, by_name=False)
    except ValidationError as error:
        raise invalid([*errors, *field_errors(model, error)]) from None
    if errors:
        raise invalid(errors)
    return resource


def invalid(errors: Iterable[FieldError]) -> Problem:
    return Problem(422, "INVALID", "The manifest is not valid", errors=tuple(errors))


def field_errors(model: type[BaseModel], error: ValidationError) -> list[FieldError]:
    """Pydantic's findings in our words."""
    return [_field_error(model, detail) for detail in error.errors(include_url=False)]


def _field_error(model: type[BaseModel], detail: ErrorDetails) -> FieldError:
    path, kind, found = path_text(detail["loc"]), detail["type"], _short(detail.get("input"))
    context: dict[str, Any] = detail.get("ctx") or {}
    if kind == "extra_forbidden" and path in LATER:
        return FieldError(path, LATER[path], "UNSUPPORTED", found)
    if kind == "extra_forbidden":
        known = tuple(_fields_at(model, detail["loc"][:-1]))
        word = str(detail["loc"][-1])
        return FieldError(path, "unknown field", "UNKNOWN_FIELD", word, known, nearest(word, known))
    if kind == "missing":
        return FieldError(path, "required", "REQUIRED")
    if kind == "literal_error":
        allowed = tuple(
            part.strip().strip("'") for part in str(context.get("expected", "")).replace(" or ", ",").split(",")
        )
        return FieldError(
            path, "not one of the allowed values", "NOT_ALLOWED", found, allowed, nearest(str(found), allowed)
        )
    if kind == "value_error":
        return FieldError(path, str(context.get("error", detail["msg"])), "INVALID", found)
    return FieldError(path, detail["msg"][0].lower() + detail["msg"][1:], "INVALID", found)


def path_text(loc: Iterable[int | str]) -> str:
    """`("spec", "accelerators", 0, "count")` as `spec.accelerators[0].count`."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _fields_at(model: type[BaseModel], loc: Iterable[int | str]) -> list[str]:
    """The wire names of the fields of the model at `loc`."""
    current: type[BaseModel] | None = model
    for part in loc:
        if isinstance(part, int) or current is None:
            continue
        current = next(
            (_model_in(info.annotation) for info in current.model_fields.values() if info.alias == part), None
        )
    return [info.alias or name for name, info in current.model_fields.items()] if current else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside `X`, `X | None`, `list[X]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for arg in getattr(annotation, "__args__", ()) if (found := _model_in(arg))), None)


def _short(value: object) -> object:
    """What was found, cut so that an error never repeats a megabyte."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 200 else text[:197] + "..."
