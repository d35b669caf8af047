"""`python -m api.main`: the API server. Settings come from the environment (docs/architecture.md)."""

import contextlib
import signal
import socket
import sys
from collections.abc import Iterator

import structlog
import uvicorn
from msgspec.structs import replace

from api.app import create_app, prepare, stop_streams
from api.credentials import BadSecret
from api.settings import Settings, from_environment
from controller import logs
from controller.collecting import seldom_collect
from controller.state import StoreError

log = structlog.get_logger("muster.api")

LARGEST_FRAME = 16 * 2**20
"""Bytes. A larger one is refused by what its head says, before it is read."""
LEAVE_SECONDS = 1
"""For requests that are being answered when the process is told to end."""


class Server(uvicorn.Server):
    """Ends streams as soon as it is told to end, and exits with 0 then."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.handle_exit)
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        stop_streams(self.config.app.state.services)  # type: ignore[union-attr]
        await super().shutdown(sockets)


def main() -> int:
    try:
        settings = from_environment()
    except ValueError as error:
        return _fail(str(error), 2)
    logs.configure(settings.log_level, settings.log_format)
    try:
        listener = listen(settings.host, settings.port)
    except OSError as error:
        reason = error.strerror or str(error)
        return _fail(f"cannot listen on {settings.host}:{settings.port}: {reason}", 1)
    return serve(settings, listener)


def serve(settings: Settings, listener: socket.socket) -> int:
    """Until a signal. The exit code."""
    settings = replace(settings, url=settings.url or advertised(listener))
    try:
        app = create_app(settings)
        prepare(app.state.services)
    except (StoreError, BadSecret, OSError, ValueError) as error:
        return _fail(str(error), 1)
    host, port = listener.getsockname()[:2]
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="websockets-sansio",
        ws_max_size=LARGEST_FRAME,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=LEAVE_SECONDS,
        server_header=False,
    )
    seldom_collect()
    log.info("listening", url=f"http://{host}:{port}")
    Server(config).run(sockets=[listener])
    return 0


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(512)
    except OSError:
        listener.close()
        raise
    return listener


def advertised(listener: socket.socket) -> str:
    """Where other machines reach this process, as far as it can know."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.getfqdn()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"muster api: {message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
