"""Waits for the kernel's lines: at once where its log can be waited for, else by looking now and then."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from agents.health.kernel_watch import Source, open_source
from agents.runtime.children import Children

LOOK: Final = 0.25
"""Seconds between looks at a file in place of the kernel's log, and at what is broken of virtual devices."""
KEEP: Final = 15.0
"""Seconds after which `take` is called though nothing came: it may have a cursor to keep."""


class Deaf(Exception):
    """No way leads to the kernel's log; says why."""


async def listen(
    wanted: str, cursor: str | None, take: Callable[[Source], None], *, fresh_boot: bool, children: Children
) -> None:
    """Until cancelled; for ever idle where no log is wanted. Raises Deaf, and OSError when the source ends."""

    def start(command: tuple[str, ...], write: int) -> Callable[[], None]:
        pid, exited = children.spawn(command, stdout=write)

        def end() -> None:
            if not exited.done():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

        return end

    source, troubles = open_source(wanted, cursor, fresh_boot=fresh_boot, start=start)
    if source is None and troubles:
        raise Deaf("; ".join(troubles))
    if source is None:
        await asyncio.Event().wait()
        return
    loop, ready, descriptor = asyncio.get_running_loop(), asyncio.Event(), source.descriptor
    if descriptor is not None:
        loop.add_reader(descriptor, ready.set)
    try:
        while True:
            ready.clear()
            take(source)
            if descriptor is not None and source.descriptor is None:
                raise OSError(f"{source.name} has ended")
            with suppress(TimeoutError):
                async with asyncio.timeout(KEEP if descriptor is not None else LOOK):
                    await ready.wait()
    finally:
        if descriptor is not None:
            loop.remove_reader(descriptor)
        source.close()
