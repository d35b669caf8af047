"""What stands behind the question mark: a name that an address does not know is refused, not ignored, since whoever
mistypes a selector would get everything."""

from collections.abc import Iterable
from typing import Any

from starlette.requests import HTTPConnection

from muster.problems import FieldError, Problem, nearest


async def known_only(request: HTTPConnection) -> None:
    """A dependency of every route. Raises Problem 400."""
    if not request.query_params:
        return
    known = sorted(_names(request.scope["route"].dependant))
    errors = tuple(
        FieldError(
            f"query.{name[:100]}", "unknown parameter", "UNKNOWN_PARAMETER", None, tuple(known), nearest(name, known)
        )
        for name in request.query_params
        if name not in known
    )
    if errors:
        raise Problem(
            400, "UNKNOWN_PARAMETER", "The request has parameters that this address does not know", errors=errors
        )


def _names(dependant: Any) -> Iterable[str]:
    for field in dependant.query_params:
        yield field.alias
    for inner in dependant.dependencies:
        yield from _names(inner)
