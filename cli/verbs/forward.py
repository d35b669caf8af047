"""`muster port-forward`."""

import contextlib
import socket
import threading
from typing import Any, Final

import click
from websockets.exceptions import ConnectionClosed

from cli import options, talking
from cli.api import client_of
from cli.errors import Exit, Failure
from cli.names import job_name
from cli.verbs.exec import RANK, WORKER
from muster import channels
from muster.client import Client, path_of

MOST: Final = 64
"""Connections at once."""


@click.command("port-forward", epilog="Example:  muster port-forward ddp-digits 6006:6006")
@click.argument("job")
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]REMOTE...")
@options.namespace
@click.option("--address", default="127.0.0.1", help="Where to listen.", show_default=True)
@WORKER
@RANK
def port_forward(
    job: str, ports: tuple[str, ...], namespace: str, address: str, worker: str | None, rank: int | None
) -> None:
    """Reach a port on which a process of the job listens.

    LOCAL 0 takes any free port. Ends with Ctrl-C."""
    pairs = [_pair(text) for text in ports]
    path = f"{path_of('Job', job_name(job), namespace)}/portforward"
    asked, where = client_of(), talking.target(worker, rank)
    listeners = []
    with contextlib.ExitStack() as stack:
        for local, remote in pairs:
            listener = stack.enter_context(_listen(address, local))
            listeners.append((listener, remote))
            click.echo(f"Forwarding {address}:{listener.getsockname()[1]} -> {remote}")
        room = threading.BoundedSemaphore(MOST)
        threads = [
            threading.Thread(target=_accept, args=(listener, asked, path, {"port": remote, **where}, room), daemon=True)
            for listener, remote in listeners
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _pair(text: str) -> tuple[int, int]:
    local, colon, remote = text.rpartition(":")
    numbers = (local if colon else remote, remote)
    if not all(one.isascii() and one.isdigit() and int(one) < 65536 for one in numbers) or int(remote) == 0:
        raise Failure(f"{text!r}: expected LOCAL:REMOTE, two ports, e.g. 6006:6006", code=Exit.USAGE)
    return int(numbers[0]), int(remote)


def _listen(address: str, port: int) -> socket.socket:
    try:
        return socket.create_server((address, port), family=socket.AF_INET6 if ":" in address else socket.AF_INET)
    except OSError as error:
        raise Failure(f"cannot listen on {address}:{port}: {error.strerror or error}") from None


def _accept(
    listener: socket.socket, asked: Client, path: str, query: dict[str, Any], room: threading.BoundedSemaphore
) -> None:
    while True:
        connection, _ = listener.accept()
        room.acquire()
        threading.Thread(target=_carry, args=(connection, asked, path, query, room), daemon=True).start()


def _carry(
    connection: socket.socket, asked: Client, path: str, query: dict[str, Any], room: threading.BoundedSemaphore
) -> None:
    """One connection, from its start to its end; what refuses it is told and costs only this one."""
    try:
        with talking.session(asked, path, **query) as remote:
            threading.Thread(target=_speak, args=(connection, remote), daemon=True).start()
            with contextlib.suppress(ConnectionClosed, OSError, ValueError):
                for message in remote:
                    channel, data = channels.split(message)
                    if channel == channels.STDOUT:
                        connection.sendall(data)
                    elif channel == channels.CLOSE:
                        connection.shutdown(socket.SHUT_WR)
                    elif channel == channels.STATUS:
                        talking.ended(channels.read_json(data))
                        break
    except Failure as failure:
        for line in failure.lines():
            click.echo(line, err=True)
    finally:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # also when `_speak` waits in it
        connection.close()
        room.release()


def _speak(connection: socket.socket, remote: Any) -> None:
    with contextlib.suppress(ConnectionClosed, OSError):
        while data := connection.recv(channels.PIECE):
            remote.send(channels.frame(channels.STDIN, data))
        remote.send(channels.close(channels.STDIN))
