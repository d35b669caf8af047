"""The agent's one stream to the API: hello, renewals, reports and logs up; what is wanted down.

Whatever breaks it, the agent connects again, after a pause with jitter, and goes on where it was. While the API
is away nothing is stopped here: that is the shims' own matter when their deadline comes.
"""

import asyncio
import logging
import random
from collections.abc import Coroutine
from contextlib import suppress

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from agents.config import AgentConfig
from agents.node import Node
from agents.talk.sessions import Sessions
from muster.clock import Clock
from muster.protocol import Ack, Desired, Lease, LogAck, Refused, Renew, Renewed, Session, Welcome, decode_down, encode

log = logging.getLogger("muster.agent")

MAX_FRAME = 256 * 2**20
FIRST_PAUSE = 0.1
GATHER = 0.2
"""Seconds for which progress alone is gathered before it is sent."""
RESEND = 10.0
POLL = (0.1, 1.0)
"""Seconds between looks at files, while something happens and when nothing does."""


class Broken(Exception):
    """The stream is of no use any more."""


class Sync:
    def __init__(
        self, config: AgentConfig, node: Node, sessions: Sessions, *, clock: Clock, randomness: random.Random
    ) -> None:
        self._config, self._node, self._clock, self._random = config, node, clock, randomness
        self._sessions = sessions
        self._lease = Lease()
        self._answered_at = 0.0
        self._seq = 0
        self._welcomed = False
        self._acked = asyncio.Event()
        self._log_room = asyncio.Event()
        self._logs_unheard, self._log_heard_at = 0, 0.0

    async def run(self) -> None:
        """Until cancelled."""
        pause = FIRST_PAUSE
        while True:
            self._welcomed = False
            try:
                await self._session()
            except (OSError, WebSocketException, TimeoutError, Broken, ValueError) as error:
                log.warning("no stream to %s: %s", self._config.stream_url, _reason(error))
            self._node.stream_broke()
            pause = FIRST_PAUSE if self._welcomed else min(pause * 2, max(2.0, 4 * self._lease.renew))
            await asyncio.sleep(pause * self._random.uniform(0.5, 1.0))

    async def _session(self) -> None:
        """One stream from its start to its end."""
        token = self._config.token_file.read_text().strip()
        async with connect(
            self._config.stream_url,
            additional_headers={"Authorization": f"Bearer {token}"},
            max_size=MAX_FRAME,
            compression=None,
            proxy=None,
            ping_interval=None,
            close_timeout=1,
            open_timeout=10,
        ) as socket:
            await socket.send(encode(self._node.hello()).decode())
            async with asyncio.timeout(10):
                first = decode_down(await socket.recv())
            if isinstance(first, Refused):
                raise Broken(f"{first.code}: {first.message}")
            if not isinstance(first, Welcome):
                raise Broken(f"expected welcome, found {type(first).__name__}")
            log.info("stream to %s is open", self._config.stream_url)
            self._lease, self._answered_at = first.lease, self._clock.boottime()
            self._welcomed = True
            if first.take_stock:
                await socket.send(encode(self._node.stock()).decode())
            if first.held:
                log.warning("this database does not know what runs here: on hold until an operator decides")
                await self._exchange(self._receive(socket), self._renew(socket), self._tell_stock(socket))
            else:
                self._node.welcomed(first.cluster)
                tells = (self._report(socket), self._ship(socket))
                await self._exchange(self._receive(socket), self._renew(socket), *tells)

    async def _exchange(self, *jobs: Coroutine[None, None, None]) -> None:
        """All directions until one of them fails."""
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                log.warning("stream to %s broke: %s", self._config.stream_url, _reason(result))
                return

    async def _receive(self, socket: ClientConnection) -> None:
        async for frame in socket:
            try:
                down = decode_down(frame)
            except ValueError as error:
                log.warning("a frame that is not understood is left out: %s", error)
                continue
            match down:
                case Renewed(sent=sent, at=at):
                    self._answered_at = self._clock.boottime()
                    if at:
                        self._node.health.heard_time(at, on_the_way=self._answered_at - sent)
                    self._node.renewed(sent)
                case Desired() as desired:
                    self._node.apply(desired)
                case Ack(seq=seq):
                    self._node.acked(seq)
                    self._acked.set()
                case LogAck() as ack:
                    self._node.log_acked(ack)
                    self._logs_unheard = max(0, self._logs_unheard - 1)
                    self._log_heard_at = self._clock.boottime()
                    self._log_room.set()
                case Session() as offer:
                    self._sessions.open(offer)
                case Refused(code=code, message=message):
                    raise Broken(f"{code}: {message}")
                case Welcome(lease=lease):
                    self._lease = lease
        raise Broken("the API closed it")

    async def _renew(self, socket: ClientConnection) -> None:
        """Raises Broken when the answers stay away: a connection may be dead without a word."""
        while True:
            silence = self._clock.boottime() - self._answered_at
            if silence > max(3.0, 4 * self._lease.renew):
                raise Broken(f"no answer for {silence:.1f} s")
            self._seq += 1
            renew = Renew(seq=self._seq, sent=self._clock.boottime(), observed=self._node.generation)
            await socket.send(encode(renew).decode())
            await asyncio.sleep(self._lease.renew)

    async def _tell_stock(self, socket: ClientConnection) -> None:
        """While on hold: again whenever something has changed. Reports wait, for nobody would know what they mean."""
        changed = self._node.changed
        while True:
            changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(RESEND):
                    await changed.wait()
            await asyncio.sleep(GATHER)
            await socket.send(encode(self._node.stock()).decode())

    async def _report(self, socket: ClientConnection) -> None:
        """One report at a time, again until it is acknowledged."""
        while True:
            await self._something_to_tell()
            report = self._node.next_report()
            if report is None:
                continue
            self._acked.clear()
            await socket.send(encode(report).decode())
            with suppress(TimeoutError):
                async with asyncio.timeout(RESEND):
                    await self._acked.wait()

    async def _something_to_tell(self) -> None:
        """At once when a worker has changed; progress alone is gathered for a moment."""
        changed = self._node.changed
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as patience:
                while not self._node.urgent():
                    changed.clear()
                    if self._node.pending() and patience.when() is None:
                        patience.reschedule(asyncio.get_running_loop().time() + GATHER)
                    await changed.wait()

    async def _ship(self, socket: ClientConnection) -> None:
        """Poll the files of running workers, more slowly when nothing happens; send what the window lets through,
        and again what nobody has acknowledged for long."""
        pause, self._logs_unheard = POLL[0], 0
        while True:
            active = self._node.poll()
            self._log_room.clear()
            if self._logs_unheard and self._clock.boottime() > self._log_heard_at + RESEND:
                self._node.send_logs_again()
                self._logs_unheard = 0
            while (chunk := self._node.next_log()) is not None:
                active = True
                if not self._logs_unheard:
                    self._log_heard_at = self._clock.boottime()
                self._logs_unheard += 1
                await socket.send(encode(chunk).decode())
            pause = POLL[0] if active else min(POLL[1], pause * 1.5)
            await self._pause(pause)

    async def _pause(self, seconds: float) -> None:
        """Idle until there is a worker at all; an acknowledgement opens the window again at once."""
        if not self._node.busy():
            await self._node.started.wait()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._log_room.wait()


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
