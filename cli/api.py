"""Asks the API, and turns its refusals into words and exit codes."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from cli.cluster import Place, find
from cli.errors import Exit, Failure

Object = dict[str, Any]
PATIENCE: Final = 30.0
"""Seconds that the API may take to answer."""


class Unreachable(Failure):
    """Nobody answered, or the answer broke off."""


class NotThere(Failure):
    """404."""


class Api:
    """One cluster's API. Every method raises Unreachable, NotThere or Failure."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def get(self, path: str, **query: Any) -> Object:
        return self._ask("GET", path, query)[0]

    def items(self, path: str, **query: Any) -> list[Object]:
        """All items of a list, over as many pages as it has."""
        found: list[Object] = []
        while True:
            answer = self.get(path, **query)
            found += answer["items"]
            after = answer.get("metadata", {}).get("continue")
            if not after:
                return found
            query["continue"] = after

    def put(self, path: str, body: Object, **query: Any) -> tuple[Object, str]:
        """The object as it is now, and `created`, `configured` or `unchanged`."""
        return self._ask("PUT", path, query, body)

    def post(self, path: str) -> Object:
        return self._ask("POST", path, {})[0]

    def delete(self, path: str) -> Object:
        return self._ask("DELETE", path, {})[0]

    def stream(self, path: str, **query: Any) -> Iterator[bytes]:
        """The body as it comes, without an end to patience."""
        with self._connected() as connection:
            response = self._send(connection, "GET", path, query, None)
            if connection.sock:
                connection.sock.settimeout(None)
            try:
                while part := response.read1(65536):
                    yield part
            except (OSError, HTTPException):
                raise Unreachable("the cluster has ended the stream", code=Exit.UNREACHABLE) from None

    def _ask(self, method: str, path: str, query: Object, body: Object | None = None) -> tuple[Object, str]:
        with self._connected() as connection:
            try:
                response = self._send(connection, method, path, query, body)
                data = response.read()
                answer = json.loads(data) if data else {}
            except (OSError, HTTPException, ValueError) as error:
                raise self._silent(error) from None
        return answer, response.headers.get("Muster-Result", "configured")

    def _send(
        self, connection: HTTPConnection, method: str, path: str, query: Object, body: Object | None
    ) -> HTTPResponse:
        named = [(name, str(value)) for name, value in query.items() if value is not None]
        target = f"/api/v1{path}" + (f"?{urlencode(named)}" if named else "")
        headers = {"Authorization": f"Bearer {self._place.token}", "Accept": "application/json, text/plain"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, target, None if body is None else json.dumps(body).encode(), headers)
            response = connection.getresponse()
            if response.status < 400:
                return response
            refusal = response.read()
        except (OSError, HTTPException) as error:
            raise self._silent(error) from None
        raise refused(response.status, refusal)

    def _connected(self) -> "_Closing":
        return _Closing(self._place.url)

    def _silent(self, error: Exception) -> Unreachable:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        return Unreachable(
            f"the cluster at {self._place.url} does not answer: {why.lower()}",
            code=Exit.UNREACHABLE,
            hint="is it running? `muster up` starts one here; MUSTER_SERVER and MUSTER_DATA_DIR name another",
        )


class _Closing:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        make = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = make(parts.hostname or "", parts.port, timeout=PATIENCE)

    def __enter__(self) -> HTTPConnection:
        return self._connection

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def refused(status: int, body: bytes) -> Failure:
    """What a problem document (RFC 9457) means to the one who typed the command."""
    try:
        problem = json.loads(body)
        title, detail = str(problem["title"]), str(problem.get("detail") or "")
        errors = [_sentence(error) for error in problem.get("errors") or ()]
    except (ValueError, KeyError, TypeError):
        title, detail, errors = f"the server answered {status}", "", []
    if errors:
        return Failure(title[:1].lower() + title[1:], code=Exit.REFUSED, details=errors)
    message = detail or title
    if status == 404:
        return NotThere(message, code=Exit.NOT_FOUND)
    if status in (401, 403):
        return Failure(
            message, code=Exit.REFUSED, hint="the token comes from MUSTER_TOKEN, MUSTER_TOKEN_FILE or DIR/token"
        )
    if status in (502, 503, 504):
        return Unreachable(message, code=Exit.UNREACHABLE, hint="try again in a moment")
    return Failure(message, code=Exit.REFUSED if status < 500 else Exit.ERROR)


def _sentence(error: Object) -> str:
    from muster.problems import FieldError

    return FieldError(
        field=str(error.get("field") or ""),
        message=str(error.get("message") or error.get("code") or "not valid"),
        found=error.get("found"),
        allowed=tuple(error.get("allowed") or ()),
        suggestion=error.get("suggestion"),
    ).sentence()


def connect() -> Api:
    return Api(find())


def jobs_path(namespace: str, name: str = "", part: str = "") -> str:
    """`/namespaces/NS/jobs[/NAME[/PART]]`."""
    parts = ["namespaces", namespace, "jobs", name, part]
    return "/" + "/".join(quote(each, safe="") for each in parts if each)


def path_to(kind: str, name: str, part: str = "") -> str:
    """`/nodes/NAME`, `/queues/NAME[/PART]`."""
    return "/" + "/".join(quote(each, safe="") for each in (kind, name, part) if each)
