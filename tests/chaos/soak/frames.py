"""A connection's bytes as what one side said at once: the head of HTTP, then WebSocket frames (RFC 6455, section 5.2)."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator

DATA = (0x0, 0x1, 0x2)
SHARE = 0.12
"""Of the messages, for each thing that may happen to one."""


async def pieces(reader: asyncio.StreamReader) -> AsyncIterator[tuple[bytes, bool]]:
    """Each piece whole, and whether it is a message (else HTTP, ping, pong or close). Ends with the connection."""
    try:
        yield await reader.readuntil(b"\r\n\r\n"), False
        while True:
            head = await reader.readexactly(2)
            size = head[1] & 0x7F
            more = {126: 2, 127: 8}.get(size, 0)
            length = await reader.readexactly(more)
            rest = (int.from_bytes(length) if more else size) + (4 if head[1] & 0x80 else 0)
            yield head + length + await reader.readexactly(rest), head[0] & 0x0F in DATA
    except (asyncio.IncompleteReadError, ConnectionError):
        return


class Mischief:
    """Drops, doubles, delays and swaps the messages of one direction. `done` counts them."""

    def __init__(self, chance: random.Random, done: Counter[str]) -> None:
        self._chance, self.done = chance, done
        self._kept: bytes | None = None

    async def pass_on(self, piece: bytes) -> list[bytes]:
        """What goes on now in place of `piece`. One that is kept back goes behind the next."""
        kept, self._kept = self._kept, None
        behind = [kept] if kept is not None else []
        lot = self._chance.random()
        if lot < SHARE:
            self.done["dropped"] += 1
            return behind
        if lot < 2 * SHARE:
            self.done["doubled"] += 1
            return [piece, *behind, piece]
        if lot < 3 * SHARE:
            self.done["delayed"] += 1
            await asyncio.sleep(self._chance.uniform(0.05, 1.5))
        elif lot < 4 * SHARE and kept is None:
            self.done["swapped"] += 1
            self._kept = piece
            return []
        return [piece, *behind]
