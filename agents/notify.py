"""What systemd is told of the agent (sd_notify(3)): that it is ready, and, as often as it asks, that it is alive.

The word comes from the event loop itself, so an agent that hangs is started anew; its workers go on meanwhile."""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress


def tell(state: str, environ: Mapping[str, str] | None = None) -> bool:
    """False when nobody asked. A name that begins with @ is an abstract socket's."""
    address = (os.environ if environ is None else environ).get("NOTIFY_SOCKET", "")
    if not address:
        return False
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
        return True
    return False


def period(environ: Mapping[str, str] | None = None, pid: int | None = None) -> float | None:
    """Seconds between words, half of what systemd waits; None when it does not watch this process."""
    env = os.environ if environ is None else environ
    text, whose = env.get("WATCHDOG_USEC", ""), env.get("WATCHDOG_PID", "")
    if not text.isdigit() or int(text) == 0 or (whose and whose != str(os.getpid() if pid is None else pid)):
        return None
    return int(text) / 2e6


async def keep_telling() -> None:
    """Until cancelled."""
    tell("READY=1")
    every = period()
    while every is not None:
        tell("WATCHDOG=1")
        await asyncio.sleep(every)
