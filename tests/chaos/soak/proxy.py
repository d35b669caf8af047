"""The network between each node and the API servers: slow, silent, cut or unruly, when it is told so."""

import asyncio
import contextlib
import itertools
import random
import threading
from collections import Counter
from collections.abc import Coroutine

from tests.chaos.soak.frames import Mischief, pieces


class Link:
    """One node's way to the API. `state` is whole, slow (each piece waits), silent (pieces vanish, and the connection
    with them when it heals, for TCP promises not to lose any), cut, or unruly (messages are lost, doubled, late or
    swapped, and the connection goes on)."""

    def __init__(self, upstream: list[int], chance: random.Random, host: str = "127.0.0.1") -> None:
        self._upstream, self.host = itertools.cycle(upstream), host
        self.state, self.port = "whole", 0
        self._chance = chance
        self.mischief: Counter[str] = Counter()
        self._open: set[asyncio.StreamWriter] = set()

    async def serve(self) -> None:
        server = await asyncio.start_server(self._connected, self.host, 0, limit=2**26)
        self.port = server.sockets[0].getsockname()[1]

    def become(self, state: str) -> None:
        if state == "cut" or self.state == "silent":
            for writer in list(self._open):
                writer.transport.abort()
        self.state = state

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            if self.state != "cut":
                there = await asyncio.open_connection("127.0.0.1", next(self._upstream), limit=2**26)
                self._open.add(there[1])
                await asyncio.gather(self._carry(reader, there[1]), self._carry(there[0], writer))
                self._open.discard(there[1])
        self._open.discard(writer)
        writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mischief = Mischief(self._chance, self.mischief)
        try:
            async for piece, message in pieces(reader):
                if self.state == "slow":
                    await asyncio.sleep(0.3)
                unruly = message and self.state == "unruly"
                for each in await mischief.pass_on(piece) if unruly else [piece]:
                    if self.state != "silent":
                        writer.write(each)
                        await writer.drain()
        finally:
            writer.transport.abort()


class Network:
    """A link for each node, in a thread of its own."""

    def __init__(
        self, nodes: list[str], upstream: list[int], *, seed: int = 0, hosts: dict[str, str] | None = None
    ) -> None:
        """`hosts`: where the way of a node begins, when it is not on this machine's loopback."""
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        where, chance = hosts or {}, random.Random(seed)
        self.links = {
            node: Link(upstream, random.Random(chance.random()), where.get(node, "127.0.0.1")) for node in nodes
        }
        for link in self.links.values():
            self._do(link.serve())

    def become(self, node: str, state: str) -> None:
        self._loop.call_soon_threadsafe(self.links[node].become, state)

    def heal(self) -> None:
        for node in self.links:
            self.become(node, "whole")

    def _do(self, work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)
