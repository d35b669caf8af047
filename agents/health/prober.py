"""The process that looks at the machine, as the agent has it: kept, since its start costs more than a look; left behind
when it hangs, and started anew at the next look."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

import agents
from agents.health.check import Request
from agents.runtime.children import Children

LONGEST: Final = 64 * 2**20
DONE: Final = b"done\n"


class Prober:
    def __init__(self, folder: Path, children: Children) -> None:
        self._request, self._children = folder / "health-request.json", children
        self._child: _Child | None = None

    async def ask(self, request: Request, within: float) -> list[bytes]:
        """The lines of its answer. Raises OSError, and TimeoutError after `within` seconds."""
        self._request.write_bytes(msgspec.json.encode(request))
        if self._child is None or self._child.exited.done():
            self._child = _Child(self._children)
        try:
            async with asyncio.timeout(within):
                answer = await self._child.ask(self._request)
        except BaseException:
            self.close()
            raise
        if not answer.endswith(DONE):
            self.close()
            raise OSError("it ended in the middle of its answer")
        return answer[: -len(DONE)].splitlines()

    def close(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None


class _Child:
    """A process with a pipe in each direction: a path in, lines out, `done` behind the last."""

    def __init__(self, children: Children) -> None:
        """Raises OSError."""
        ear, self._say = os.pipe()
        self._hear, mouth = os.pipe()
        os.set_blocking(self._hear, False)
        try:
            self._pid, self.exited = children.spawn(command("probe", "serve()"), stdin=ear, stdout=mouth)
        except OSError:
            os.close(self._say)
            os.close(self._hear)
            raise
        finally:
            os.close(ear)
            os.close(mouth)

    async def ask(self, path: Path) -> bytes:
        """Until `done`, or the end of the process."""
        loop, data, ended = asyncio.get_running_loop(), bytearray(), asyncio.Event()

        def ready() -> None:
            try:
                piece = os.read(self._hear, 65536)
            except BlockingIOError:
                return
            data.extend(piece)
            if not piece or data.endswith(DONE) or len(data) > LONGEST:
                ended.set()

        os.write(self._say, f"{path}\n".encode())
        loop.add_reader(self._hear, ready)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._hear)
        return bytes(data)

    def end(self) -> None:
        for descriptor in (self._say, self._hear):
            with suppress(OSError):
                os.close(descriptor)
        if not self.exited.done():
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)


def command(module: str, call: str, *words: Path) -> tuple[str, ...]:
    """An interpreter that finds this very program, whatever its environment, and runs something of agents.health."""
    root = str(Path(agents.__file__).parent.parent) if agents.__file__ else os.getcwd()
    code = f"import sys; sys.path.insert(0, {root!r}); from agents.health import {module} as it; it.{call}"
    return (sys.executable, "-c", code, *map(str, words))
