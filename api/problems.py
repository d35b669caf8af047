"""Every refusal is a problem document (RFC 9457), whoever refused."""

from typing import Any, Final

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from controller.state import (
    BadValue,
    Conflict,
    IllegalMove,
    NotFound,
    StoreError,
    StoreUnavailable,
    Taken,
    TooOld,
)
from muster.problems import FieldError, Problem
from muster.resources.parse import path_text

MEDIA_TYPE: Final = "application/problem+json"

_TITLES: Final = {
    400: ("BAD_REQUEST", "The request cannot be understood"),
    401: ("UNAUTHENTICATED", "A valid token is needed"),
    403: ("FORBIDDEN", "This token may not do that"),
    404: ("NOT_FOUND", "There is no such thing"),
    405: ("METHOD_NOT_ALLOWED", "This address does not take that method"),
}


def not_found(kind: str, name: str, namespace: str = "") -> Problem:
    where = f" in namespace {namespace}" if namespace else ""
    return Problem(404, "NOT_FOUND", f"{kind} not found", f"there is no {kind.lower()} {name!r}{where}")


def conflict(detail: str, *errors: FieldError, code: str = "CONFLICT") -> Problem:
    return Problem(409, code, "The request does not agree with the present state", detail, errors=errors)


def as_problem(error: Exception, path: str = "") -> Problem | None:
    """The refusal that an exception means; None when it is a fault of ours. `path` was asked for."""
    match error:
        case Problem():
            return error
        case HTTPException():
            return _http(error, path)
        case RequestValidationError():
            return _parameters(error)
        case StoreError():
            return _store(error)
    return None


def response(problem: Problem, request_id: str, headers: dict[str, str] | None = None) -> Response:
    body = problem.wire() | {"requestId": request_id}
    more = dict(headers or {})
    if problem.status == 401:
        more["WWW-Authenticate"] = 'Bearer realm="muster"'
    if problem.status == 503:
        more["Retry-After"] = "1"
    return Response(msgspec.json.encode(body), problem.status, more, MEDIA_TYPE)


def _http(error: HTTPException, path: str) -> Problem:
    code, title = _TITLES.get(error.status_code, ("REFUSED", str(error.detail)))
    details = {404: f"there is nothing at {path}", 405: f"the header Allow says what {path} takes"}
    return Problem(error.status_code, code, title, details.get(error.status_code, str(error.detail)))


def _parameters(error: RequestValidationError) -> Problem:
    errors = [
        FieldError(path_text(one["loc"]), one["msg"][0].lower() + one["msg"][1:], found=_short(one.get("input")))
        for one in error.errors()
    ]
    return Problem(422, "INVALID", "The request is not valid", errors=tuple(errors))


def _store(error: StoreError) -> Problem:
    text = str(error)
    match error:
        case NotFound():
            return Problem(404, "NOT_FOUND", "There is no such thing", text)
        case Conflict() | IllegalMove() | Taken():
            return conflict(text)
        case TooOld():
            extra = {"oldest": error.oldest, "newest": error.newest}
            return Problem(410, "TOO_OLD", "The change log does not reach that revision", text, extra=extra)
        case BadValue():
            return Problem(422, "INVALID", "The request is not valid", text)
        case StoreUnavailable():
            detail = "the database did not answer in time; nothing was written"
            if error.outcome_unknown:
                detail = "the database broke off; whether it was written is unknown"
            return Problem(503, "UNAVAILABLE", "The database cannot be reached", detail)
    return Problem(503, "UNAVAILABLE", "The database cannot be used", text)


def _short(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else str(value)[:200]
