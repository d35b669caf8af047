"""The network between each node and the API servers: slow, silent or cut, when it is told so."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Coroutine


class Link:
    """One node's way to the API. `state` is whole, slow (each piece waits), silent (pieces vanish, and the connection
    with them when it heals, for TCP promises not to lose any) or cut."""

    def __init__(self, upstream: list[int]) -> None:
        self._upstream = itertools.cycle(upstream)
        self.state, self.port = "whole", 0
        self._open: set[asyncio.StreamWriter] = set()

    async def serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
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
                there = await asyncio.open_connection("127.0.0.1", next(self._upstream))
                self._open.add(there[1])
                await asyncio.gather(self._carry(reader, there[1]), self._carry(there[0], writer))
                self._open.discard(there[1])
        self._open.discard(writer)
        writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                if self.state == "slow":
                    await asyncio.sleep(0.3)
                if self.state != "silent":
                    writer.write(data)
                    await writer.drain()
        finally:
            writer.transport.abort()


class Network:
    """A link for each node, in a thread of its own."""

    def __init__(self, nodes: list[str], upstream: list[int]) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.links = {node: Link(upstream) for node in nodes}
        for link in self.links.values():
            self._do(link.serve())

    def become(self, node: str, state: str) -> None:
        self._loop.call_soon_threadsafe(self.links[node].become, state)

    def heal(self) -> None:
        for node in self.links:
            self.become(node, "whole")

    def _do(self, work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)
