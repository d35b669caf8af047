"""What comes in: JSON bodies, idempotency keys, selectors, page tokens."""

import base64
import hashlib
import json
from typing import Annotated, Any, Final

import msgspec
from fastapi import Depends, Query, Request
from msgspec import Struct

from muster.problems import FieldError, Problem, nearest
from muster.states import JobPhase

KEY_LIMIT: Final = 255


class Once(Struct, frozen=True):
    """An Idempotency-Key with the scope in which it is unique, and what it was first used for."""

    key: str
    body_hash: str


async def document_of(request: Request) -> Any:
    """The JSON body. Raises Problem 415 or 400."""
    media = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media != "application/json" and not (media.startswith("application/") and media.endswith("+json")):
        detail = f"expected Content-Type: application/json, found {media or 'none'}"
        raise Problem(415, "UNSUPPORTED_MEDIA_TYPE", "The body's format is not known", detail)
    body = await request.body()
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Problem(400, "MALFORMED_JSON", "The body is not JSON", _where(body, error)) from None


def _where(body: bytes, error: Exception) -> str:
    """The standard library says the line and the column."""
    try:
        json.loads(body)
    except json.JSONDecodeError as found:
        return f"line {found.lineno}, column {found.colno}: {found.msg[0].lower()}{found.msg[1:]}"
    except (UnicodeDecodeError, RecursionError):
        return "not UTF-8, or nested too deeply"
    return str(error)


async def once_of(request: Request) -> Once | None:
    """Raises Problem 400 when the key cannot be one."""
    given = request.headers.get("idempotency-key")
    if given is None:
        return None
    if not 0 < len(given) <= KEY_LIMIT or not given.isascii() or not given.isprintable():
        detail = f"Idempotency-Key: expected 1 to {KEY_LIMIT} printable ASCII characters"
        raise Problem(400, "BAD_IDEMPOTENCY_KEY", "The request cannot be understood", detail)
    scope = f"{request.state.principal.name} {request.method} {request.url.path} {given}"
    content = request.url.query.encode() + b"\n" + await request.body()
    return Once(scope, hashlib.sha256(content).hexdigest())


DryRun = Annotated[bool, Query(alias="dryRun", description="check everything, write nothing")]
Document = Annotated[Any, Depends(document_of)]
OnlyOnce = Annotated[Once | None, Depends(once_of)]


def body_of(*names: str) -> dict[str, Any]:
    """For `openapi_extra`: the body is one of these resources, read by `Document`."""
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    schema = refs[0] if len(refs) == 1 else {"oneOf": refs}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def selector(text: str | None) -> dict[str, str]:
    """`a=b,c=d` as a mapping. Raises Problem 422."""
    labels = {}
    for part in (text or "").split(","):
        key, equals, value = part.partition("=")
        if not part.strip():
            continue
        if not equals or not key.strip():
            raise _invalid("query.labelSelector", "expected label=value[,label=value]", part)
        labels[key.strip()] = value.lstrip("=").strip()
    return labels


class Fields(Struct, frozen=True, kw_only=True):
    """What a field selector asks of a job."""

    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    number: int | None = None
    queue: str | None = None
    phase: JobPhase | None = None


_FIELDS: Final = {
    "metadata.name": "name",
    "metadata.namespace": "namespace",
    "metadata.uid": "uid",
    "metadata.number": "number",
    "spec.queue": "queue",
    "status.phase": "phase",
}


def field_selector(text: str | None) -> Fields:
    """`status.phase=Running,spec.queue=a`. Raises Problem 422."""
    found: dict[str, Any] = {}
    for part in filter(str.strip, (text or "").split(",")):
        path, equals, value = (word.strip() for word in part.partition("="))
        value = value.removeprefix("=").strip()
        if not equals or path not in _FIELDS:
            error = FieldError(
                "query.fieldSelector",
                "expected field=value",
                "UNKNOWN",
                part[:200],
                tuple(_FIELDS),
                nearest(path, _FIELDS),
            )
            raise Problem(422, "INVALID", "The request is not valid", errors=(error,))
        if path == "status.phase" and value not in list(JobPhase):
            allowed = tuple(JobPhase)
            error = FieldError(
                "query.fieldSelector", "unknown phase", "UNKNOWN", value[:200], allowed, nearest(value, allowed)
            )
            raise Problem(422, "INVALID", "The request is not valid", errors=(error,))
        found[_FIELDS[path]] = value
    if "number" in found:
        if not (found["number"].isascii() and found["number"].isdigit() and len(found["number"]) < 19):
            raise _invalid("query.fieldSelector", "metadata.number: expected a whole number", found["number"])
        found["number"] = int(found["number"])
    if "phase" in found:
        found["phase"] = JobPhase(found["phase"])
    return Fields(**found)


def page_token(last: tuple[str, ...]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(last)).decode()


def page_after(token: str | None) -> tuple[str, str, str] | None:
    """The inverse of `page_token`. Raises Problem 422."""
    if token is None:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=tuple[str, str, str])
    except ValueError:
        raise _invalid("query.continue", "expected the token of an earlier page", token) from None


def _invalid(field: str, message: str, found: str) -> Problem:
    error = FieldError(field, message, found=found[:200])
    return Problem(422, "INVALID", "The request is not valid", errors=(error,))
