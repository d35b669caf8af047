"""The agent's end of agents/runtime/match.py: text in, progress points out, never waiting."""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agents.runtime.children import Children
from agents.runtime.reportfile import parse_line
from muster.protocol import ProgressPoint

SCRIPT = Path(__file__).with_name("match.py")


class Matcher:
    """Text that comes faster than it is searched is left out. `on_point` is called in the loop. `ended`: the
    expression took too long or is none; no more points come."""

    def __init__(
        self, children: Children, regex: str, now: Callable[[], float], on_point: Callable[[ProgressPoint], None]
    ) -> None:
        self._now, self._on_point, self._rest = now, on_point, b""
        stdin, self._input = os.pipe()
        self._output, stdout = os.pipe()
        for descriptor in (self._input, self._output):
            os.set_blocking(descriptor, False)
        self.ended = False
        try:
            children.spawn((sys.executable, "-I", "-S", str(SCRIPT), regex), stdin=stdin, stdout=stdout)
        finally:
            os.close(stdin)
            os.close(stdout)
        asyncio.get_running_loop().add_reader(self._output, self._readable)

    def feed(self, text: str) -> None:
        if not self.ended:
            with suppress(OSError):
                os.write(self._input, text.encode())

    def close(self) -> None:
        if not self.ended:
            self.ended = True
            asyncio.get_running_loop().remove_reader(self._output)
            os.close(self._output)
            os.close(self._input)

    def _readable(self) -> None:
        try:
            data = os.read(self._output, 65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            said = parse_line(line, self._now())
            if said is not None and said.point is not None:
                self._on_point(said.point)
        if not data:
            self.close()
