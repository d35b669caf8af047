"""The OpenAPI document: what FastAPI knows of the routes, with the manifests that come in and the problems that go
out."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from api.bulk import MOST
from api.views import ProblemView
from muster.resources.job import Job
from muster.resources.meta import API_VERSION
from muster.resources.policy import MaintenanceWindow, PriorityClass, Reservation
from muster.resources.queue import Queue

_REF: Final = "#/components/schemas/{model}"
_MANIFESTS: Final = {
    "Job": Job,
    "Queue": Queue,
    "PriorityClass": PriorityClass,
    "Reservation": Reservation,
    "MaintenanceWindow": MaintenanceWindow,
}

_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "Job": {
        "apiVersion": "muster.dev/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"workers": 2, "accelerators": [{"type": "h100", "count": 8}], "command": ["python", "train.py"]},
    },
    "Queue": {
        "apiVersion": "muster.dev/v1",
        "kind": "Queue",
        "metadata": {"name": "research"},
        "spec": {"defaultTimeLimit": "12h"},
    },
    "PriorityClass": {
        "apiVersion": "muster.dev/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "spec": {"value": 1000, "who": {"namespaces": ["research"]}},
    },
    "Reservation": {
        "apiVersion": "muster.dev/v1",
        "kind": "Reservation",
        "metadata": {"name": "course"},
        "spec": {"size": 4, "accelerator": "h100", "duration": "4h", "who": {"namespaces": ["course"]}},
    },
    "MaintenanceWindow": {
        "apiVersion": "muster.dev/v1",
        "kind": "MaintenanceWindow",
        "metadata": {"name": "cooling"},
        "spec": {"nodeSelector": {"muster.dev/block": "b0"}, "start": "2026-12-01T08:00:00Z", "duration": "2h"},
    },
}


def document(app: FastAPI) -> dict[str, Any]:
    """Made once and kept."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, routes=app.routes)
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        _add_manifests(schemas)
        _add_problems(made, schemas)
        _add_security(made)
        app.openapi_schema = made
    return app.openapi_schema


def _add_manifests(schemas: dict[str, Any]) -> None:
    for name, model in _MANIFESTS.items():
        schema = model.model_json_schema(by_alias=True, ref_template=_REF)
        schemas |= schema.pop("$defs", {})
        schemas[name] = schema | {"examples": [_EXAMPLES[name]]}
    schemas["JobList"] = {
        "type": "object",
        "required": ["apiVersion", "kind", "items"],
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": "JobList"},
            "items": {"type": "array", "items": {"$ref": _REF.format(model="Job")}, "minItems": 1, "maxItems": MOST},
        },
        "examples": [{"apiVersion": API_VERSION, "kind": "JobList", "items": [_EXAMPLES["Job"]]}],
    }


def _add_security(made: dict[str, Any]) -> None:
    """The middleware asks for the token, before any route."""
    told = "the token in the data directory's file `token`"
    made["components"]["securitySchemes"] = {"HTTPBearer": {"type": "http", "scheme": "bearer", "description": told}}
    for path, operations in made["paths"].items():
        if path.startswith("/api/"):
            for operation in operations.values():
                operation["security"] = [{"HTTPBearer": []}]


def _add_problems(made: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Every operation may be refused, always in the same form."""
    schema = TypeAdapter(ProblemView).json_schema(ref_template=_REF)
    schemas |= schema.pop("$defs", {})
    schemas["Problem"] = schema
    content = {"application/problem+json": {"schema": {"$ref": _REF.format(model="Problem")}}}
    answer = {"description": "Refused: a problem document (RFC 9457)", "content": content}
    for path in made["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = answer
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
