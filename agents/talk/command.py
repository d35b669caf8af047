"""A command beside the ranks of a worker, started by the worker's shim (agents/shims/sessions.py)."""

import asyncio
import errno
import fcntl
import json
import os
import struct
import termios
from contextlib import ExitStack, suppress
from typing import Final

from msgspec import Struct
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from agents.runtime.worker import Worker
from agents.talk.refusal import Refusal
from muster import channels
from muster.protocol import Session

DRAIN: Final = 0.5
"""Seconds after a command's end in which what it has printed may still come; something it left may keep printing."""
START: Final = 10.0
END_OF_TRANSMISSION: Final = b"\x04"


class Ends(Struct, frozen=True):
    """Our descriptors of a command's streams. With a terminal there is only one of them."""

    stdin: int | None
    outputs: dict[int, int]
    status: int
    terminal: int | None = None


async def talk(worker: Worker, offer: Session, socket: ClientConnection) -> None:
    """Until the command has ended or nobody listens. Raises Refusal."""
    with ExitStack() as stack:
        ours, theirs = _terminal(offer) if offer.tty else _pipes(offer)
        for fd in {*ours.outputs.values(), ours.status} | ({ours.stdin} if ours.stdin is not None else set()):
            stack.callback(_close, fd)
        try:
            env = {"TERM": offer.term or "xterm"} if offer.tty else {}
            sent = worker.start_beside(offer.rank, offer.command, env, tty=offer.tty, descriptors=theirs)
        finally:
            for fd in set(theirs):
                os.close(fd)
        if not sent:
            raise Refusal("NOT_RUNNING", "the worker's shim cannot be reached")
        await _exchange(ours, offer, socket)


async def _exchange(ours: Ends, offer: Session, socket: ClientConnection) -> None:
    outputs = [asyncio.create_task(_print(fd, channel, socket)) for channel, fd in ours.outputs.items()]
    listening = asyncio.create_task(_listen(ours, socket))
    ended = asyncio.create_task(_read_all(ours.status))
    try:
        await asyncio.wait((listening, ended), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            return  # the asker has gone; the shim sees that, and ends the command
        await asyncio.wait(outputs, timeout=DRAIN)
        await socket.send(_status(await ended, offer))
    except ConnectionClosed:
        pass
    finally:
        for task in (*outputs, listening, ended):
            task.cancel()
        await asyncio.gather(*outputs, listening, ended, return_exceptions=True)


def _status(told: bytes, offer: Session) -> bytes:
    if not told:
        return channels.status(code="ENDED", message="the worker has ended, and the command with it")
    how = json.loads(told)
    if "errno" in how:
        why = os.strerror(how["errno"])
        code = "NO_SUCH_COMMAND" if how["errno"] in (errno.ENOENT, errno.ENOTDIR) else "PERMISSION"
        return channels.status(code=code, message=f"{offer.command[0]} cannot be executed: {why}")
    return channels.status(**({"exitCode": how["code"]} if "code" in how else {"signal": how["signal"]}))


async def _print(fd: int, channel: int, socket: ClientConnection) -> None:
    while data := await _read(fd):
        await socket.send(channels.frame(channel, data))


async def _listen(ours: Ends, socket: ClientConnection) -> None:
    """What the asker says, until it has gone."""
    stdin = ours.stdin
    with suppress(ConnectionClosed):
        async for message in socket:
            try:
                channel, data = channels.split(message)
                if channel == channels.RESIZE and ours.terminal is not None:
                    size = channels.read_json(data)
                    _resize(ours.terminal, int(size["Width"]), int(size["Height"]))
            except (ValueError, KeyError, TypeError):
                continue
            ends = channel == channels.CLOSE and data[:1] == bytes((channels.STDIN,))
            if stdin is None or not (ends or channel == channels.STDIN):
                continue
            if ends and ours.terminal is None:
                _shut(stdin)
                stdin = None
            else:
                await _write(stdin, END_OF_TRANSMISSION if ends else data)


def _pipes(offer: Session) -> tuple[Ends, list[int]]:
    outputs = [os.pipe() for _ in range(3)]  # stdout, stderr, status
    stdin, ours = os.pipe() if offer.stdin else (os.open("/dev/null", os.O_RDONLY), None)
    ends = Ends(ours, {channels.STDOUT: outputs[0][0], channels.STDERR: outputs[1][0]}, outputs[2][0])
    return ends, [stdin, *(write for _, write in outputs)]


def _terminal(offer: Session) -> tuple[Ends, list[int]]:
    master, slave = os.openpty()
    status, told = os.pipe()
    _resize(master, offer.columns, offer.rows)
    return Ends(master if offer.stdin else None, {channels.STDOUT: master}, status, master), [slave, slave, slave, told]


def _resize(terminal: int, columns: int, rows: int) -> None:
    """Sizes that no terminal has are left out."""
    if 0 < columns < 2**16 and 0 < rows < 2**16:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


async def _read(fd: int) -> bytes:
    """Empty at the end. A terminal that nobody has open any more says EIO."""
    os.set_blocking(fd, False)
    while True:
        try:
            return os.read(fd, channels.PIECE)
        except BlockingIOError:
            await _ready(fd, read=True)
        except OSError:
            return b""


async def _read_all(fd: int) -> bytes:
    data = b""
    while piece := await _read(fd):
        data += piece
    return data


async def _write(fd: int, data: bytes) -> None:
    """All of it, unless nobody reads any more."""
    os.set_blocking(fd, False)
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            await _ready(fd, read=False)
        except OSError:
            return


async def _ready(fd: int, *, read: bool) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    (loop.add_reader if read else loop.add_writer)(fd, ready.set)
    try:
        await ready.wait()
    finally:
        (loop.remove_reader if read else loop.remove_writer)(fd)


def _shut(fd: int) -> None:
    """The descriptor's number stays taken until the session ends, so that it is nobody else's meanwhile."""
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, fd, inheritable=False)
    os.close(null)


def _close(fd: int) -> None:
    with suppress(OSError):
        os.close(fd)
