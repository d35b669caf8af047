"""What happens to every request before and after its route: a request id, the limit on bodies, authentication, the
last net under faults, metrics. Plain ASGI, so that streams pass through unbuffered."""

import re
from collections.abc import Callable
from typing import Final

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import problems
from api.acting import acting
from api.auth import Authenticator, Principal, bearer, check, guarded
from api.metrics import Metrics
from controller.state import Actor, StoreError
from muster.problems import Problem

log = structlog.get_logger("muster.api")

BODY_LIMIT: Final = 2**20
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Requests:
    """The outermost: gives each request an id, counts it, and turns whatever escapes into a problem document. A fault
    of ours is logged with its traceback; the client gets the id and no more."""

    def __init__(self, app: ASGIApp, *, new_id: Callable[[], str], metrics: Metrics) -> None:
        self._app, self._new_id, self._metrics = app, new_id, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else self._new_id()
        scope.setdefault("state", {})["request_id"] = request_id
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request=request_id)
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        with self._metrics.request(scope) as observed:
            try:
                await self._app(scope, receive, sending)
            except Exception as error:
                problem = problems.as_problem(error) or _fault(error, scope, request_id)
                if status:
                    raise
                await _refuse(problem, request_id, scope, receive, sending)
            finally:
                observed.status = status


def _fault(error: Exception, scope: Scope, request_id: str) -> Problem:
    log.error("a request failed", request_id=request_id, path=scope["path"], exc_info=error)
    detail = f"an internal error; the server's log has the details under request id {request_id}"
    return Problem(500, "INTERNAL", "Something went wrong on our side", detail)


async def _refuse(problem: Problem, request_id: str, scope: Scope, receive: Receive, send: Send) -> None:
    answer = problems.response(problem, request_id)
    if scope["type"] == "http":
        await answer(scope, receive, send)
    elif "websocket.http.response" in scope.get("extensions", {}):
        await send(
            {"type": "websocket.http.response.start", "status": answer.status_code, "headers": answer.raw_headers}
        )
        await send({"type": "websocket.http.response.body", "body": answer.body})
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": problem.title})


class Authentication:
    """Puts the principal into `request.state.principal`, or refuses. Writes are done in its name; one that was
    refused goes into the audit trail by `refused` (actor, method, path, outcome)."""

    def __init__(
        self, app: ASGIApp, *, authenticator: Authenticator, refused: Callable[[Actor, str, str, str], None]
    ) -> None:
        self._app, self._authenticator, self._refused = app, authenticator, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or not guarded(scope["path"]):
            await self._app(scope, receive, send)
            return
        principal = await self._principal(bearer(Headers(scope=scope).get("authorization")))
        scope["state"]["principal"] = principal
        actor = Actor(name=principal.name, role=principal.role, request_id=scope["state"]["request_id"])
        if scope.get("method", "GET") in ("GET", "HEAD"):
            check(principal, scope.get("method", "GET"), scope["path"])
            await self._app(scope, receive, send)
            return
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        acting.set(actor)
        try:
            check(principal, scope.get("method", "GET"), scope["path"])
            await self._app(scope, receive, sending)
        except Problem as problem:
            status = problem.status
            raise
        except Exception:
            status = 500
            raise
        finally:
            if status >= 400:
                await self._tell(actor, scope, str(status))

    async def _tell(self, actor: Actor, scope: Scope, outcome: str) -> None:
        """A trail that cannot be written is said in the log: the answer stays what it is."""
        try:
            await run_in_threadpool(self._refused, actor, scope["method"], scope["path"][:500], outcome)
        except StoreError as error:
            log.warning("a refused write is not in the audit trail", actor=actor.name, why=str(error))

    async def _principal(self, token: str) -> Principal:
        if (known := self._authenticator.remembered(token)) is not None:
            return known
        return await run_in_threadpool(self._authenticator.principal, token)


class BodyLimit:
    """Refuses a body above the limit, announced or not."""

    def __init__(self, app: ASGIApp, *, limit: int = BODY_LIMIT) -> None:
        self._app, self._limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "0")
        if announced.isdigit() and int(announced) > self._limit:
            raise self._too_large()
        got = 0

        async def receiving() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > self._limit:
                raise self._too_large()
            return message

        await self._app(scope, receiving, send)

    def _too_large(self) -> Problem:
        return Problem(413, "TOO_LARGE", "The request is too large", f"a body may have {self._limit} bytes at most")
