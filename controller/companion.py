"""A helper process of this one, which runs only while it has something to do, and never outlives its parent."""

import subprocess
import sys

import structlog

from muster.clock import Clock

log = structlog.get_logger("muster.controller")

SETTLED = 1.0
"""Seconds for which it must have been wanted before it is started: most waits are over sooner."""
AGAIN = 5.0
"""Seconds between starts of one that ends by itself."""
PATIENCE = 3.0


class Companion:
    """`python -m MODULE ROLE`, with the environment of this process. It ends by itself when there is nothing to do, and
    when its standard input is closed: with the parent, however that dies."""

    def __init__(self, module: str, clock: Clock) -> None:
        self._module, self._clock = module, clock
        self._process: subprocess.Popen[bytes] | None = None
        self._role = ""
        self._since: float | None = None
        self._start_at = 0.0

    def wanted(self, wanted: bool, role: str) -> None:
        """To be called often: starts it when it has been wanted for a moment. One of another role is ended."""
        now = self._clock.boottime()
        if not wanted:
            self._since = None
        elif self._since is None:
            self._since = now
        if self._process is not None and (self._role != role or self._process.poll() is not None):
            self.end()
        if self._process is None and self._since is not None and now >= max(self._since + SETTLED, self._start_at):
            self._start(role, now)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def end(self) -> None:
        """Returns when it is gone."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code > 0:
            log.warning("a helper process ended badly", module=self._module, code=code)

    def _start(self, role: str, now: float) -> None:
        words = [sys.executable, "-P", "-m", self._module, role]
        self._start_at = now + AGAIN
        try:
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            self._role = role
        except OSError as error:
            log.warning("a helper process cannot be started", module=self._module, error=str(error))
