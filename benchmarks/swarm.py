"""Simulated agents: each with a stream of its own that renews its lease, and notes what it is told to run."""

import asyncio
import time
from collections.abc import Callable

from benchmarks.wires import Socket
from muster.protocol import Desired, Device, Hello, Inventory, Renew, Renewed, Welcome, decode_down, encode
from muster.version import PROTOCOL


class Agent:
    """One node. `started` is called with each worker that it is told of for the first time."""

    def __init__(self, number: int, devices: int, started: Callable[[str], None]) -> None:
        self.name, self._started = f"sim-{number:05}", started
        self._devices = tuple(Device(index=index, type="h100", virtual=True) for index in range(devices))
        self._number = number
        self._known: set[str] = set()
        self._seq, self._sent = 0, 0.0
        self.took: list[float] = []
        self.renewed_at = 0.0
        self.gap = 0.0
        """The longest time between acknowledged renewals."""
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.again: Callable[[], None] | None = None

    async def join(self, url: str, token: str) -> None:
        loop = asyncio.get_running_loop()
        self._socket = Socket(url, token, self._hear)
        at = self._socket.address
        await loop.create_connection(lambda: self._socket, at.host, at.port)
        await self._socket.opened
        inventory = Inventory(
            address="127.0.0.1",
            host=self.name,
            cpu_milli=10**6,
            memory=2**42,
            devices=self._devices,
            labels={"muster.dev/leaf": f"l{self._number // 16}"},
        )
        hello = Hello(v=PROTOCOL, node=self.name, boot_id=self.name, agent_version="sim", inventory=inventory)
        self._socket.send(encode(hello))
        await self.ready

    def renew(self) -> None:
        self._seq += 1
        self._sent = time.monotonic()
        self._socket.send(encode(Renew(seq=self._seq, sent=self._sent)))

    def close(self) -> None:
        self._socket.close()

    def _hear(self, frame: bytes) -> None:
        match decode_down(frame):
            case Renewed():
                now = time.monotonic()
                self.took.append(now - self._sent)
                self.gap = max(self.gap, now - self.renewed_at)
                self.renewed_at, self._sent = now, 0.0
                if self.again is not None:
                    self.again()
            case Desired(assignments=assignments):
                for one in assignments:
                    if one.worker_uid not in self._known:
                        self._known.add(one.worker_uid)
                        self._started(one.job)
            case Welcome():
                self.renewed_at = time.monotonic()
                if not self.ready.done():
                    self.ready.set_result(None)
            case _:
                pass


async def gather(
    count: int,
    url: str,
    token: str,
    *,
    devices: int = 0,
    started: Callable[[str], None] = lambda _: None,
    into: list[Agent] | None = None,
) -> list[Agent]:
    """That many agents, registered and welcome; `into` a list that holds those that are already."""
    agents = [] if into is None else into
    for first in range(0, count, 50):
        new = [Agent(number, devices, started) for number in range(first, min(count, first + 50))]
        await asyncio.gather(*(agent.join(url, token) for agent in new))
        agents += new
    return agents


async def renew_every(agents: list[Agent], period: float) -> None:
    """Each agent renews once in a period, the agents spread evenly over it, until cancelled. One that waits for an
    acknowledgement for a whole period sends the next renewal all the same, as agents do."""
    last, owed, turn = time.monotonic(), 0.0, 0
    while True:
        await asyncio.sleep(0.01)
        now = time.monotonic()
        owed, last = owed + (now - last) / period * len(agents), now
        while owed >= 1 and agents:
            agents[turn % len(agents)].renew()
            turn, owed = turn + 1, owed - 1
