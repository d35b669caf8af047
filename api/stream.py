"""One agent's stream: hello, then renewals, reports and logs up, acknowledgements and what is desired down.

Four tasks a stream, so that a slow database or a full log store never holds up a renewal: reading sorts the frames,
reports and logs are each worked off in order, writing sends."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

import anyio
import structlog
from starlette.websockets import WebSocket, WebSocketDisconnect

from api import holding, registration, reports
from api.desired import desired
from api.holding import Standing
from api.hub import Outbox
from api.logintake import Intake
from api.renewals import Renewals
from api.services import Services
from controller.state import StoreError
from muster.protocol import (
    Ack,
    Desired,
    Hello,
    LogChunk,
    Refused,
    Renew,
    Report,
    Stock,
    Welcome,
    decode_up,
    encode,
)
from muster.version import PROTOCOL

log = structlog.get_logger("muster.api")

HELLO_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 0.5
"""Pause before what the database or the disk did not take is tried again."""

HOLD_SECONDS: Final = 0.5
"""Between looks at whether a hold is over."""

T = TypeVar("T")


class Pools:
    """Threads of all streams, apart from each other: neither a slow database nor a mount that hangs may hold up
    renewals."""

    def __init__(self) -> None:
        self.renewals = ThreadPoolExecutor(1, "renewals")
        self.reports = ThreadPoolExecutor(2, "reports")
        self.logs = ThreadPoolExecutor(2, "logs")

    def close(self) -> None:
        for pool in (self.renewals, self.reports, self.logs):
            pool.shutdown(wait=False, cancel_futures=True)


class Stream:
    def __init__(self, here: Services, socket: WebSocket, renewals: Renewals, pools: Pools) -> None:
        self._here, self._socket, self._renewals, self._pools = here, socket, renewals, pools
        self._reports: asyncio.Queue[Report] = asyncio.Queue(16)
        self._recorded = 0

    async def run(self) -> None:
        """From the handshake to the end, whoever ends it."""
        await self._socket.accept()
        try:
            hello = await self._hello()
        except (TimeoutError, WebSocketDisconnect):
            return
        except (ValueError, KeyError) as error:
            await self._refuse(Refused(code="VERSION", message=f"expected a hello: {error}"[:500]))
            return
        standing = await self._register(hello)
        if isinstance(standing, Refused):
            log.warning("an agent was refused", node=hello.node[:100], code=standing.code, message=standing.message)
            await self._refuse(standing)
            return
        outbox = Outbox(hello.node, hello.boot_id)
        self._here.hub.join(outbox)
        self._here.metrics.agents.inc()
        log.info("an agent is connected", node=hello.node, version=hello.agent_version)
        try:
            await (self._hold if standing.held else self._exchange)(outbox, standing)
        finally:
            self._here.hub.leave(outbox)
            self._here.metrics.agents.dec()
            log.info("an agent's stream has ended", node=hello.node)

    async def _hello(self) -> Hello:
        async with asyncio.timeout(HELLO_SECONDS):
            frame = decode_up(await self._receive())
        if not isinstance(frame, Hello):
            raise ValueError(f"found {type(frame).__name__.lower()}")
        return frame

    async def _receive(self) -> str | bytes:
        """Raises WebSocketDisconnect."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        frame: str | bytes = message.get("text") or message.get("bytes") or b""
        return frame

    async def _register(self, hello: Hello) -> Refused | Standing:
        here = self._here
        if (refused := registration.refusal(hello)) is not None:
            return refused
        try:
            return await self._off_loop(
                self._pools.reports,
                lambda: here.write(
                    lambda w: registration.register(
                        w, hello, uid=here.new_id(), now=here.clock.now(), unknown=here.settings.lease.unknown
                    )
                ),
            )
        except StoreError as error:
            return Refused(code="UNAVAILABLE", message=str(error))

    async def _exchange(self, outbox: Outbox, standing: Standing) -> None:
        """In the hub already, so that no change is missed between the first answer and the follower's next."""
        first = await self._until_done(self._pools.reports, lambda: self._desired(outbox.node))
        outbox.post(self._welcome(standing, first.generation))
        outbox.want(first)
        self._intake = Intake(self._here, outbox.node, outbox.post)
        await self._run(outbox, self._read, self._write, self._record, self._append, self._closing)

    async def _hold(self, outbox: Outbox, standing: Standing) -> None:
        """Leases are renewed and stock is taken, nothing else. The agent comes again when the hold is over."""
        outbox.refrain()
        outbox.post(self._welcome(standing, 0))
        await self._run(outbox, self._read_held, self._write, self._closing, self._until_released)

    def _welcome(self, standing: Standing, generation: int) -> Welcome:
        return Welcome(
            v=PROTOCOL,
            lease=self._here.settings.lease,
            generation=generation,
            cluster=standing.cluster,
            take_stock=standing.take_stock or standing.held,
            held=standing.held,
        )

    async def _run(self, outbox: Outbox, *jobs: Callable[[Outbox], Awaitable[None]]) -> None:
        error = await _until_one_ends(*jobs, of=outbox)
        if isinstance(error, ValueError):
            log.warning("a frame was not understood", node=outbox.node, error=str(error)[:500])
        elif error is not None and not isinstance(error, WebSocketDisconnect | OSError | RuntimeError):
            log.error("a stream failed", node=outbox.node, exc_info=error)
        await self._refuse(outbox.farewell)

    def _desired(self, node: str) -> Desired:
        with self._here.store.read() as r:
            return desired(r, [node], self._here.authenticator.secret)[node]

    async def _read(self, outbox: Outbox) -> None:
        while True:
            frame = decode_up(await self._receive())
            match frame:
                case Renew():
                    self._renewals.add(outbox, frame)
                    outbox.observed(frame.observed, self._here.clock.boottime())
                case Report():
                    await self._reports.put(frame)
                case LogChunk():
                    self._intake.add(frame)
                case Stock():
                    await self._take_stock(outbox, frame)
                case Hello():
                    raise ValueError("a second hello")

    async def _read_held(self, outbox: Outbox) -> None:
        """Reports and logs are not acknowledged, so the agent keeps them until somebody knows what they are about."""
        while True:
            frame = decode_up(await self._receive())
            match frame:
                case Renew():
                    self._renewals.add(outbox, frame)
                case Stock():
                    await self._take_stock(outbox, frame)
                case Hello():
                    raise ValueError("a second hello")

    async def _take_stock(self, outbox: Outbox, stock: Stock) -> None:
        here = self._here
        take = partial(holding.take, node=outbox.node, stock=stock, now=here.clock.now())
        await self._until_done(self._pools.reports, lambda: here.write(take))

    async def _until_released(self, outbox: Outbox) -> None:
        while await self._until_done(self._pools.reports, lambda: self._on_hold(outbox.node)):
            await asyncio.sleep(HOLD_SECONDS)

    def _on_hold(self, node: str) -> bool:
        with self._here.store.read() as r:
            return holding.on_hold(r.cluster(), r.node(node))

    async def _write(self, outbox: Outbox) -> None:
        while True:
            await self._socket.send_text(await outbox.next())

    async def _closing(self, outbox: Outbox) -> None:
        await outbox.closing.wait()

    async def _record(self, outbox: Outbox) -> None:
        while True:
            report = await self._reports.get()
            if self._here.hub.holds(outbox):
                if report.seq < self._recorded:  # overtaken by a newer one: what it tells is out of date
                    outbox.post(Ack(seq=report.seq))
                    continue
                self._recorded = report.seq
                await self._until_done(self._pools.reports, lambda: reports.record(self._here, outbox.node, report))  # noqa: B023
                outbox.post(Ack(seq=report.seq))

    async def _append(self, outbox: Outbox) -> None:
        await self._intake.run(lambda work: self._until_done(self._pools.logs, work))

    async def _until_done(self, pool: Executor, fn: Callable[[], T]) -> T:
        """Off the loop, again while the database or the disk is away."""
        said = False
        while True:
            try:
                return await self._off_loop(pool, fn)
            except (StoreError, OSError) as error:
                log.log(10 if said else 30, "tried again until it can be written", error=str(error))
                said = True
                await asyncio.sleep(RETRY_SECONDS)

    async def _off_loop(self, pool: Executor, fn: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, fn)

    async def _refuse(self, refused: Refused | None) -> None:
        """Say why, if there is a reason and somebody to hear it, and close."""
        try:
            if refused is not None:
                await self._socket.send_text(encode(refused).decode())
            await self._socket.close(1008 if refused is not None else 1001)
        except (RuntimeError, WebSocketDisconnect, OSError):
            pass  # it is closed already


async def _until_one_ends(*jobs: Callable[[Outbox], Awaitable[None]], of: Outbox) -> Exception | None:
    """Run all until the first ends; what it raised."""
    errors: list[Exception] = []
    async with anyio.create_task_group() as group:

        async def run(job: Callable[[Outbox], Awaitable[None]]) -> None:
            try:
                await job(of)
            except Exception as error:
                errors.append(error)
            group.cancel_scope.cancel()

        for job in jobs:
            group.start_soon(run, job)
    return errors[0] if errors else None
