"""Sends what is due beside the loop: a broker that hangs must cost no leader its lease."""

import threading
from collections.abc import Callable

import structlog

from controller.state import StoreError

log = structlog.get_logger("muster.tasks")


class Sender:
    """`send(now)` is one dispatch. One at a time; who asks meanwhile is passed over, for the loop asks again."""

    def __init__(self, send: Callable[[float], None]) -> None:
        self._send, self._busy = send, threading.Lock()

    def __call__(self, now: float) -> None:
        if self._busy.acquire(blocking=False):
            threading.Thread(target=self._work, args=(now,), name="outbox", daemon=True).start()

    def _work(self, now: float) -> None:
        try:
            self._send(now)
        except StoreError as error:
            log.warning("what is due waits for the database", error=str(error))
        finally:
            self._busy.release()

    def wait(self, seconds: float) -> bool:
        """Until nothing is being sent. False when it takes longer."""
        done = self._busy.acquire(timeout=seconds)
        if done:
            self._busy.release()
        return done
