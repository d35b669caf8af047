"""Sessions with workers: exec, attach, port-forward, whichever API process is asked.

The process that is asked writes a row that names itself. The process that has the stream of the worker's agent sees
the row (the follower brings it) and tells the agent, which calls back at its own server. Whoever takes that call
either has the asker waiting, or passes the frames on to the process that has (named in the row).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol

import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from api.hub import Hub
from controller.state import SessionRecord
from muster import channels, protocol
from muster.clock import Clock
from muster.problems import Problem

log = structlog.get_logger("muster.api")

AGENT_SECONDS: Final = 15.0
"""How long an agent may take to call."""
LARGEST_FRAME: Final = 2**20
LOOK: Final = 15.0
"""Seconds between looks at the time of an idle session."""


class End(Protocol):
    """One side of a session: `receive` gives None at the end."""

    async def receive(self) -> bytes | None: ...

    async def send(self, data: bytes) -> None: ...


class Desk:
    """Who waits in this process for an agent. Used on the event loop only."""

    def __init__(self, hub: Hub, *, most: int) -> None:
        self._hub, self._most = hub, most
        self._waiting: dict[str, asyncio.Future[Call]] = {}
        self._open = 0
        self._told: set[str] = set()

    def tell(self, rows: Iterable[SessionRecord]) -> None:
        """Pass on to their agents what has not been passed on yet. A repeat does no harm: agents know what they had."""
        for row in rows:
            if row.uid not in self._told and self._hub.post(row.node, _offer(row)):
                self._told.add(row.uid)

    def look(self, rows: list[SessionRecord]) -> None:
        """These are all that there are."""
        self._told &= {row.uid for row in rows}
        self.tell(rows)

    def expect(self, uid: str) -> "Expected":
        """Raises Problem 429 when there are too many already."""
        if self._open >= self._most:
            raise Problem(
                429, "TOO_MANY_SESSIONS", "Too many sessions", f"this server has {self._most} open sessions already"
            )
        return Expected(self, uid)

    def answer(self, uid: str, call: "Call") -> bool:
        """An agent calls. False when nobody waits for it here."""
        future = self._waiting.get(uid)
        if future is None or future.done():
            return False
        future.set_result(call)
        return True

    # for Expected

    def enter(self, uid: str) -> "asyncio.Future[Call]":
        self._open += 1
        future = self._waiting[uid] = asyncio.get_running_loop().create_future()
        return future

    def leave(self, uid: str) -> None:
        self._open -= 1
        del self._waiting[uid]


class Expected:
    """A session that waits for its agent; its context is the session's life."""

    def __init__(self, desk: Desk, uid: str) -> None:
        self._desk, self._uid = desk, uid

    def __enter__(self) -> "Expected":
        self._future = self._desk.enter(self._uid)
        return self

    def __exit__(self, *_: object) -> None:
        self._desk.leave(self._uid)
        if self._future.done() and not self._future.cancelled():
            self._future.result().over.set()
        else:
            self._future.cancel()

    async def call(self, node: str) -> "Call":
        """Raises Problem 504."""
        try:
            async with asyncio.timeout(AGENT_SECONDS):
                return await asyncio.shield(self._future)
        except TimeoutError:
            raise Problem(
                504,
                "NODE_SILENT",
                "The node does not answer",
                f"the agent of node {node} has not answered within {AGENT_SECONDS:g} s",
            ) from None


class Call:
    """An agent's end of a session; `over` is set when the asker's side has let go of it."""

    def __init__(self, socket: WebSocket) -> None:
        self.side, self.over = Side(socket), asyncio.Event()


class Side:
    """A WebSocket that ends here."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def receive(self) -> bytes | None:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            return None
        data: bytes = message.get("bytes") or (message.get("text") or "").encode()
        return data[:LARGEST_FRAME]

    async def send(self, data: bytes) -> None:
        await self._socket.send_bytes(data)


class Remote:
    """A WebSocket that ends in another API process."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    async def receive(self) -> bytes | None:
        try:
            message = await self._socket.recv()
        except ConnectionClosed:
            return None
        return message.encode() if isinstance(message, str) else message

    async def send(self, data: bytes) -> None:
        await self._socket.send(data)


async def join(asker: End, worker: End, *, clock: Clock, idle: float, longest: float) -> None:
    """Pass frames on both ways until one side ends, nothing has come for `idle` seconds, or `longest` have passed; the
    asker is told why then."""
    began = last = clock.boottime()

    async def pump(source: End, target: End) -> None:
        nonlocal last
        with suppress(RuntimeError, WebSocketDisconnect, WebSocketException, OSError):
            while (data := await source.receive()) is not None:
                last = clock.boottime()
                if data:
                    await target.send(data)

    async def watch() -> None:
        while True:
            now = clock.boottime()
            if now - last >= idle or now - began >= longest:
                why = f"nothing was said for {idle:g} s" if now - last >= idle else f"it lasted {longest:g} s"
                await asker.send(channels.status(code="IDLE", message=f"the session was ended: {why}"))
                return
            await asyncio.sleep(min(LOOK, max(0.05, idle - (now - last)), max(0.05, longest - (now - began))))

    await _first_of(lambda: pump(asker, worker), lambda: pump(worker, asker), watch)


async def _first_of(*jobs: Callable[[], Awaitable[None]]) -> None:
    tasks = [asyncio.ensure_future(job()) for job in jobs]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def relay(row: SessionRecord, socket: WebSocket, *, clock: Clock) -> None:
    """An agent has called here, but the asker waits in the process at `row.url`."""
    url = f"ws{row.url.removeprefix('http')}/agent/v1/sessions/{row.uid}"
    headers = {"Authorization": socket.headers.get("authorization", ""), RELAYED: "1"}
    try:
        async with connect(
            url, additional_headers=headers, proxy=None, compression=None, max_size=LARGEST_FRAME, ping_interval=None
        ) as there:
            await join(Remote(there), Side(socket), clock=clock, idle=_FOREVER, longest=_FOREVER)
    except (OSError, WebSocketException, TimeoutError) as error:
        log.warning("a session cannot be passed on", session=row.uid, url=row.url, error=str(error)[:500])


RELAYED: Final = "x-muster-relayed"
_FOREVER: Final = 10.0 * 365 * 24 * 3600


def _offer(row: SessionRecord) -> Any:
    return protocol.decode_down(row.offer)
