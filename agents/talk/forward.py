"""One TCP connection to a port on which a process of the worker listens; to nobody else's on this node."""

import asyncio
import os
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

from msgspec import Struct
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from agents.runtime.worker import Worker
from agents.talk.refusal import Refusal
from muster import channels
from muster.protocol import Session

LISTEN: Final = "0A"
PROC: Final = Path("/proc")


class Listener(Struct, frozen=True):
    """A listening socket: its address, and the inode by which processes hold it."""

    address: str
    port: int
    inode: str


async def talk(worker: Worker, offer: Session, socket: ClientConnection) -> None:
    """Raises Refusal."""
    address = await asyncio.to_thread(_address, worker, offer.port)
    try:
        reader, writer = await asyncio.open_connection(address, offer.port)
    except OSError as error:
        raise Refusal("PORT_CLOSED", f"port {offer.port}: {error.strerror or error}") from None
    try:
        up, down = asyncio.create_task(_up(reader, socket)), asyncio.create_task(_down(socket, writer))
        await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
        if not down.done():
            with suppress(ConnectionClosed):  # the program has said all; the asker may still be speaking
                await asyncio.wait((down,), timeout=1.0)
                await socket.send(channels.status(exitCode=0))
        up.cancel()
        down.cancel()
        await asyncio.gather(up, down, return_exceptions=True)
    finally:
        writer.close()


async def _up(reader: asyncio.StreamReader, socket: ClientConnection) -> None:
    with suppress(ConnectionClosed, OSError):
        while data := await reader.read(channels.PIECE):
            await socket.send(channels.frame(channels.STDOUT, data))
        await socket.send(channels.close(channels.STDOUT))


async def _down(socket: ClientConnection, writer: asyncio.StreamWriter) -> None:
    """Until the asker has gone."""
    with suppress(ConnectionClosed, OSError, ValueError):
        async for message in socket:
            channel, data = channels.split(message)
            if channel == channels.STDIN:
                writer.write(data)
                await writer.drain()
            elif channel == channels.CLOSE and writer.can_write_eof():
                writer.write_eof()


def _address(worker: Worker, port: int) -> str:
    """Where to reach the worker's own listener on `port`. Raises Refusal."""
    held = _sockets(worker.processes())
    for one in listeners():
        if one.port == port and one.inode in held:
            address = ip_address(one.address)
            if address.is_unspecified:
                return "127.0.0.1" if isinstance(address, IPv4Address) else "::1"
            return one.address
    raise Refusal("PORT_CLOSED", f"no process of this worker listens on port {port}")


def listeners(proc: Path = PROC) -> list[Listener]:
    """All listening TCP sockets of this network stack."""
    found = []
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == LISTEN:
                address, _, port = fields[1].partition(":")
                found.append(Listener(_readable(address), int(port, 16), fields[9]))
    return found


def _readable(text: str) -> str:
    """Addresses in /proc/net are 32-bit words in the machine's own order."""
    words = b"".join(int(text[i : i + 8], 16).to_bytes(4, "little") for i in range(0, len(text), 8))
    if len(words) == 4:
        return str(IPv4Address(words))
    address = IPv6Address(words)
    return str(address.ipv4_mapped or address)


def _sockets(pids: set[int], proc: Path = PROC) -> set[str]:
    """Inodes of the sockets that these processes have open."""
    found = set()
    for pid in pids:
        try:
            names = os.listdir(proc / str(pid) / "fd")
        except OSError:
            continue
        for name in names:
            with suppress(OSError):
                target = os.readlink(proc / str(pid) / "fd" / name)
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found
