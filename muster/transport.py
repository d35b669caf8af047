"""HTTP to one server, by the standard library: errors that carry problem documents, retries of what may be repeated,
server-sent events."""

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

RETRIES: Final = 4
FIRST_PAUSE: Final = 0.1
SILENCE: Final = 40.0
"""Seconds without a word after which a stream of events is taken for dead; the server says where it is every 15 s."""

_AGAIN: Final = frozenset({502, 503, 504})

Object = dict[str, Any]


class MusterError(Exception):
    """Base of all below. The message is a sentence for people."""


class NoCluster(MusterError):
    """Nothing says where the cluster is, or who is asking."""


class Unreachable(MusterError):
    """The server cannot be reached, or broke off."""


class ApiError(MusterError):
    """The server refused. `problem` is its document (RFC 9457): title, detail, code, errors."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status, self.problem = status, dict(problem)
        super().__init__(self.detail)

    @property
    def code(self) -> str:
        return str(self.problem.get("code", ""))

    @property
    def detail(self) -> str:
        return str(self.problem.get("detail") or self.problem.get("title") or f"HTTP status {self.status}")

    @property
    def errors(self) -> list[Object]:
        """The single findings, each with field, message, and where known found, allowed, suggestion."""
        found = self.problem.get("errors")
        return found if isinstance(found, list) else []


class Unauthenticated(ApiError):
    """401: no token, or one that is not known."""


class Forbidden(ApiError):
    """403: this token may not do that."""


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: not with the present state; `code` says why, e.g. ALREADY_EXISTS, IMMUTABLE_FIELD."""


class Gone(ApiError):
    """410: the change log does not reach back so far."""


class Invalid(ApiError):
    """422: `errors` say what and where."""


class Unavailable(ApiError):
    """503: the server is there, its database is not."""


_ERRORS: Final[dict[int, type[ApiError]]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    503: Unavailable,
}


class Answer(NamedTuple):
    """Header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Transport:
    """One server, one token, one connection that is kept open. Not for several threads at once. `timeout` in seconds
    for each answer."""

    def __init__(
        self,
        server: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = RETRIES,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        address = urlsplit(server if "://" in server else f"http://{server}")
        if address.scheme not in ("http", "https") or not address.hostname:
            raise NoCluster(f"{server!r} is not the address of a server; expected e.g. http://127.0.0.1:7070")
        self.server = f"{address.scheme}://{address.netloc}"
        self.retries, self.sleep = retries, sleep
        self._secure, self._host, self._port = address.scheme == "https", address.hostname, address.port
        self._base = address.path.rstrip("/")
        self._token, self._timeout = token, timeout
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        again: bool = False,
    ) -> Answer:
        """Any request. `again`: it may be repeated. Raises ApiError, Unreachable."""
        again = again or method == "GET"
        if not again:
            self.close()  # a kept connection may have died unseen, and then nobody knows whether this was done
        for attempt in range(self.retries + 1):
            last = attempt == self.retries or not again
            try:
                return self._once(method, path, query, body, headers)
            except ApiError as error:
                if last or error.status not in _AGAIN:
                    raise
            except Unreachable:
                if last:
                    raise
            self.sleep(FIRST_PAUSE * 2**attempt)
        raise AssertionError("unreachable")

    def _once(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: object,
        headers: Mapping[str, str] | None,
    ) -> Answer:
        kept, self._connection = self._connection, None
        connection = kept or self._connect(self._timeout)
        try:
            response = self._send(connection, method, path, query, body, headers)
            answer = Answer(
                response.status, {name.lower(): text for name, text in response.getheaders()}, response.read()
            )
        except (ApiError, NoCluster):
            connection.close()
            raise
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise self._unreachable(error) from error
        if not response.will_close:
            self._connection = connection
        return answer

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        """Raises ApiError unless the answer is good."""
        sent = {"Accept": "application/json", **(headers or {})}
        if self._token:
            sent["Authorization"] = f"Bearer {self._token}"
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        connection.request(method, self._base + path + _query(query or {}), content, sent)
        response = connection.getresponse()
        if response.status >= 300:
            raise refusal(response.status, _problem(response))
        return response

    def json(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        *,
        again: bool = False,
    ) -> Object:
        found: Object = self.request(method, path, query, body, headers, again=again).json()
        return found

    def _connect(self, timeout: float | None) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=timeout)

    def _unreachable(self, error: Exception) -> Unreachable:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Unreachable(f"{self.server} cannot be reached: {reason}")

    def pieces(self, path: str, query: Mapping[str, Any], *, silence: float | None) -> Iterator[bytes]:
        """An answer of unknown length as it comes. `silence`: seconds without a word, after which it is taken for
        dead."""
        connection = self._connect(silence)
        try:
            response = self._send(connection, "GET", path, query)
            while piece := response.read1(65536):
                yield piece
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def websocket(self, path: str, query: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        """The address of a WebSocket of this server, and the headers that say who asks."""
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return "ws" + self.server.removeprefix("http") + self._base + path + _query(query), headers

    def sse(self, path: str, query: Mapping[str, Any]) -> Iterator[tuple[str, Object]]:
        """Server-sent events of one stream until it ends."""
        connection = self._connect(SILENCE)
        try:
            response = self._send(connection, "GET", path, query)
            event = ""
            while line := response.readline():
                word, _, text = line.rstrip(b"\r\n").decode().partition(": ")
                if word == "event":
                    event = text
                elif word == "data":
                    yield event, json.loads(text)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()


def _query(query: Mapping[str, Any]) -> str:
    """Without what is None; True and False in lower case; a list as repeated words."""
    words = [
        (name, str(one).lower() if isinstance(one, bool) else str(one))
        for name, value in query.items()
        if value is not None
        for one in (value if isinstance(value, list | tuple) else [value])
    ]
    return "?" + urlencode(words) if words else ""


def _problem(response: http.client.HTTPResponse) -> Object:
    """What came instead of a good answer; a proxy on the way may speak otherwise."""
    return problem_in(response.read(2**20), response.reason)


def problem_in(body: bytes, reason: str) -> Object:
    """The problem document in an answer, or one made of what there is."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    return {"title": reason or "refused", "detail": body[:500].decode(errors="replace").strip()}


def refusal(status: int, problem: Mapping[str, Any]) -> ApiError:
    return _ERRORS.get(status, ApiError)(status, problem)
