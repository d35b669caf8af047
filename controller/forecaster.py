"""`python -m controller.forecaster leader|standby`: predicts starts while anything waits, at the lowest priority.

Started by the controller. Ends when nothing has waited for a minute, and when its standard input is closed.
"""

import os
import select
import socket
import sys
from contextlib import suppress

import structlog

from controller import logs
from controller.agreeing import agree
from controller.forecasting import Forecaster
from controller.main import new_id
from controller.settings import from_environment
from controller.state.errors import StoreError, StoreUnavailable
from controller.state.store import open_store
from muster.clock import SystemClock

log = structlog.get_logger("muster.forecast")

TICK = 1.0
IDLE = 60.0
NICE = 15


def main(words: list[str]) -> int:
    settings = from_environment()
    logs.configure(settings.log_level)
    os.nice(NICE)
    clock = SystemClock()
    store = open_store(settings.database_url, clock=clock, new_id=new_id)
    with suppress(StoreUnavailable):
        agree(clock, store)
    maker = f"{socket.gethostname()}:{os.getpid()}:{new_id()[-8:]}"
    try:
        forecaster = Forecaster(store, clock, maker, standby="standby" in words)
        busy_at = clock.boottime()
        while clock.boottime() - busy_at < IDLE and not _closed(0.0):
            try:
                if forecaster.tick():
                    busy_at = clock.boottime()
            except StoreUnavailable as error:
                log.warning("the database does not answer", error=str(error))
            if _closed(TICK):
                break
    except StoreError as error:
        log.error("no forecasts", error=str(error))
        return 1
    finally:
        store.close()
    return 0


def _closed(timeout: float) -> bool:
    """Whether standard input has ended. Whoever starts this by hand may leave it open."""
    ready, _, _ = select.select([sys.stdin], [], [], timeout)
    return bool(ready) and not os.read(sys.stdin.fileno(), 1024)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
