"""What a rank prints from now on, read from its node's own files, and how it ends."""

import asyncio
from contextlib import suppress
from typing import Final

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from agents.runtime.sources import Source
from agents.runtime.worker import Worker
from agents.talk.refusal import Refusal
from muster import channels
from muster.protocol import RankExit, Session

LOOK: Final = 0.05
SETTLED: Final = 4
"""Looks without news after the end of a rank: its last words may reach the file after the news of its end."""


async def talk(worker: Worker, offer: Session, socket: ClientConnection) -> None:
    """Raises Refusal."""
    rank = offer.rank if offer.rank is not None else worker.first_rank()
    gone = asyncio.create_task(_gone(socket))
    positions: dict[str, int] = {}
    begun, quiet = False, 0
    with suppress(ConnectionClosed):
        while not gone.done():
            over = worker.history.over or any(one.rank == rank for one in worker.history.exits)
            sources = worker.telling.sources(rank) or worker.telling.sources(None)
            if not begun:
                positions, begun = {name: source.end() for name, source in sources.items()}, True
            news = await _print(sources, positions, socket)
            quiet = quiet + 1 if over and not news else 0
            if quiet >= SETTLED:
                await socket.send(_status([one for one in worker.history.exits if one.rank in (rank, None)]))
                break
            await asyncio.wait((gone,), timeout=LOOK)
    gone.cancel()


async def _print(sources: dict[str, Source], positions: dict[str, int], socket: ClientConnection) -> bool:
    """What is new in the files of a rank. False when nothing is."""
    news = False
    for name, source in sources.items():
        while (piece := source.read(positions.get(name, 0), channels.PIECE)).data:
            news, positions[name] = True, piece.position
            channel = channels.STDERR if source.stream == "stderr" else channels.STDOUT
            await socket.send(channels.frame(channel, piece.data))
    return news


def _status(exits: list[RankExit]) -> bytes:
    if not exits:
        raise Refusal("ENDED", "the worker has ended")
    how = exits[-1]
    return channels.status(**({"exitCode": how.code} if how.code is not None else {"signal": how.signal}))


async def _gone(socket: ClientConnection) -> None:
    """Until the asker has left; nothing that it says is of interest."""
    with suppress(ConnectionClosed):
        async for _ in socket:
            pass
