"""An image comes to this node: once for all who want it, with progress, and again after a pause when it failed."""

import asyncio
import os
import re
from collections.abc import Callable
from typing import Final

from agents.runtime.children import Children
from agents.runtime.containers.contract import Engine

PAUSES: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0)
"""Seconds between tries; the last repeats until the launch is given up."""
FINAL_TRIES: Final = 3
FINAL: Final = re.compile(
    r"manifest unknown|not found|denied|unauthorized|no such image|invalid reference|name unknown|authentication required",
    re.IGNORECASE,
)
"""What another try will hardly change."""
LOOK_SECONDS: Final = 60.0
_BEGUN: Final = re.compile(
    r"(?:^|\s)([0-9a-f]{12,64}): (?:Pulling fs layer|Waiting)|Copying blob (?:sha256:)?([0-9a-f]{12,64})"
)
_DONE: Final = re.compile(
    r"(?:^|\s)([0-9a-f]{12,64}): (?:Pull complete|Already exists)|Copying blob (?:sha256:)?([0-9a-f]{12,64}) (?:done|skipped)"
)
_PERCENT: Final = re.compile(r"(\d{1,3}(?:\.\d+)?)\s?%")


class NoImage(Exception):
    """The image cannot be had; the message is for people."""


class Images:
    """What this agent pulls. `say` gets sentences of progress."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._locks: dict[str, asyncio.Lock] = {}

    async def ready(self, engine: Engine, image: str, pull: str, say: Callable[[str], None]) -> None:
        """Until the image is here. Raises NoImage."""
        async with self._locks.setdefault(image, asyncio.Lock()):
            here = pull != "always" and await self._present(engine, image)
            if not here and pull == "never":
                raise NoImage(f"image {image} is not on this node, and imagePull is never")
            tries = 0
            while not here:
                say(f"pulling {image}")
                error = await self._pull(engine, image, say)
                if error is None:
                    return
                tries += 1
                if FINAL.search(error) and tries >= FINAL_TRIES:
                    raise NoImage(f"image {image} cannot be pulled: {error}")
                pause = PAUSES[min(tries, len(PAUSES)) - 1]
                say(f"pulling {image} failed ({error}); again in {pause:g} s")
                await asyncio.sleep(pause)

    async def _present(self, engine: Engine, image: str) -> bool:
        pid, exited = self._children.spawn(engine.present(image), home=True)
        return await _ended(pid, exited, LOOK_SECONDS) == 0

    async def _pull(self, engine: Engine, image: str, say: Callable[[str], None]) -> str | None:
        """None when it is here; else the last words."""
        read, write = os.pipe()
        os.set_blocking(read, False)
        progress = Progress()
        try:
            pid, exited = self._children.spawn(engine.pull(image), stdout=write, together=True, home=True)
        except OSError as error:
            return str(error)
        finally:
            os.close(write)

        def hear() -> None:
            try:
                data = os.read(read, 65536)
            except OSError:
                return
            if not data:
                loop.remove_reader(read)
            elif (told := progress.hear(data)) is not None:
                say(f"pulling {image}: {told}")

        loop = asyncio.get_running_loop()
        loop.add_reader(read, hear)
        try:
            code = await _ended(pid, exited, None)
            hear()
        finally:
            loop.remove_reader(read)
            os.close(read)
        return None if code == 0 else progress.last or f"exit code {code}"


async def _ended(pid: int, exited: "asyncio.Future[int]", timeout: float | None) -> int:
    """Kills it when nobody waits any more."""
    try:
        async with asyncio.timeout(timeout):
            return await asyncio.shield(exited)
    except TimeoutError:
        return -1
    finally:
        if not exited.done():
            os.killpg(pid, 9)


class Progress:
    """Layers that engines name, or their percentages. Pure."""

    def __init__(self) -> None:
        self.last = ""
        self._begun: set[str] = set()
        self._done: set[str] = set()
        self._told = ""
        self._rest = ""

    def hear(self, data: bytes) -> str | None:
        """What is news for people; None when nothing is."""
        *lines, self._rest = re.split(r"[\r\n]", self._rest + data.decode(errors="replace"))
        percent = ""
        for line in lines:
            self.last = line.strip()[:300] or self.last
            self._begun |= {match[1] or match[2] for match in _BEGUN.finditer(line)}
            self._done |= {match[1] or match[2] for match in _DONE.finditer(line)}
            percents = _PERCENT.findall(line)
            percent = f"{percents[-1]} %" if percents else percent
        told = f"{len(self._done)} of {len(self._begun | self._done)} layers" if self._begun | self._done else percent
        if not told or told == self._told:
            return None
        self._told = told
        return told
