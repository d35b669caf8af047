"""Sessions with workers, as the command line holds them: frames of `muster.channels` over a WebSocket."""

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import click
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from cli.api import failure
from cli.errors import Exit, Failure
from muster import channels, client
from muster.transport import problem_in, refusal

OPEN_SECONDS: Final = 30.0
LARGEST_FRAME: Final = 2**20
UNSTARTED: Final = {"NO_SUCH_COMMAND": 127, "PERMISSION": 126}
"""Exit codes that a shell gives."""


@contextlib.contextmanager
def session(asked: client.Client, path: str, **query: Any) -> Iterator[ClientConnection]:
    """Raises Failure when it is refused, or breaks."""
    url, headers = asked.http.websocket(path, query)
    try:
        with connect(
            url,
            additional_headers=headers,
            open_timeout=OPEN_SECONDS,
            close_timeout=1,
            max_size=LARGEST_FRAME,
            max_queue=4,
            compression=None,
            proxy=None,
        ) as socket:
            yield socket
    except InvalidStatus as error:
        problem = problem_in(bytes(error.response.body or b""), error.response.reason_phrase)
        raise failure(refusal(error.response.status_code, problem)) from None
    except (OSError, TimeoutError, InvalidHandshake) as error:
        raise failure(client.Unreachable(f"{asked.server} cannot be reached: {error}")) from None


class Console:
    """The user's side of a session. `interactive` sends standard input, `terminal` makes ours raw meanwhile."""

    def __init__(self, socket: ClientConnection, *, interactive: bool, terminal: bool) -> None:
        self._socket, self._interactive, self._terminal = socket, interactive, terminal
        self._wake_read, self._wake_write = os.pipe()

    def run(self) -> int:
        """Until the other side has ended. The exit code: the command's own, 128 + N for signal N. Raises Failure."""
        with contextlib.ExitStack() as stack:
            if self._terminal and sys.stdin.isatty():
                stack.enter_context(_raw(sys.stdin.fileno()))
                before = signal.signal(signal.SIGWINCH, lambda *_: os.write(self._wake_write, b"w"))
                stack.callback(signal.signal, signal.SIGWINCH, before)
            if self._interactive or self._terminal:
                threading.Thread(target=self._speak, daemon=True).start()
            status = self._hear()
        return ended(status)

    def _hear(self) -> dict[str, Any] | None:
        outputs: dict[int, BinaryIO] = {channels.STDOUT: sys.stdout.buffer, channels.STDERR: sys.stderr.buffer}
        try:
            for message in self._socket:
                channel, data = channels.split(message)
                if channel == channels.STATUS:
                    return channels.read_json(data)
                if channel in outputs:
                    outputs[channel].write(data)
                    outputs[channel].flush()
        except (ConnectionClosed, ValueError):
            pass
        return None

    def _speak(self) -> None:
        """What is typed, and each new size of the window."""
        sources = [self._wake_read] + ([sys.stdin.fileno()] if self._interactive else [])
        with contextlib.suppress(ConnectionClosed, OSError):
            while True:
                ready, _, _ = select.select(sources, [], [])
                if self._wake_read in ready:
                    os.read(self._wake_read, 64)
                    self._socket.send(channels.resize(*shutil.get_terminal_size()))
                if sys.stdin.fileno() in ready:
                    data = os.read(sys.stdin.fileno(), channels.PIECE)
                    if data:
                        self._socket.send(channels.frame(channels.STDIN, data))
                    else:
                        self._socket.send(channels.close(channels.STDIN))
                        sources.remove(sys.stdin.fileno())


def ended(status: dict[str, Any] | None) -> int:
    """What a session's last word means to who began it. Raises Failure."""
    if status is None:
        raise Failure("the connection broke off before the end", code=Exit.UNREACHABLE)
    if status.get("exitCode") is not None:
        return int(status["exitCode"])
    if status.get("signal") is not None:
        return 128 + int(status["signal"])
    code = str(status.get("code", ""))
    message = str(status.get("message") or code or "the session was ended")
    if code in UNSTARTED:
        click.echo(f"error: {message}", err=True)
        return UNSTARTED[code]
    raise Failure(message, code=Exit.REFUSED)


@contextlib.contextmanager
def _raw(fd: int) -> Iterator[None]:
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd, termios.TCSADRAIN)  # what was typed ahead counts
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def target(worker: str | None, rank: int | None) -> dict[str, Any]:
    """`--worker` as it is shown everywhere: `trainer-2`, or the index alone. Raises Failure."""
    if worker is None:
        return {"rank": rank}
    role, _, index = worker.rpartition("-")
    if not index.isdigit():
        raise Failure(f"--worker {worker}: expected ROLE-INDEX, e.g. worker-0", code=Exit.USAGE)
    return {"role": role or None, "worker": int(index), "rank": rank}
