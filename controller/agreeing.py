"""One time for all servers of a cluster: the database's, where that runs on another machine."""

from typing import Final

import structlog

from controller.state import Store
from muster.clock import SystemClock

APART: Final = 2.0
"""Seconds by which a machine's clock may differ from the database's."""

log = structlog.get_logger("muster.clock")


def agree(clock: SystemClock, store: Store) -> None:
    """A machine whose clock is hours ahead ends nothing early, and puts nothing off for hours. Raises StoreUnavailable."""
    wall = store.time()
    if wall is not None and abs(wall - clock.now()) >= APART:
        ahead = -clock.agree(wall)
        log.warning("this machine's clock is not the database's, which is gone by", ahead=round(ahead, 3))
