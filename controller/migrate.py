"""`python -m controller.migrate`: brings the database of MUSTER_DATABASE_URL to this release's schema.

Servers do the same when they start. As a step of its own it can go before an upgrade, while the old release goes on: each
migration only adds (docs/state.md). A database that is not there yet is waited for, `PATIENCE` seconds.
"""

import os
import sys
import time
from typing import Final

from controller.main import new_id
from controller.state import open_store
from controller.state.errors import StoreError, StoreUnavailable
from controller.state.schema import HEAD
from muster.clock import Clock, SystemClock

PATIENCE: Final = 120.0
PAUSE: Final = 1.0


def migrate(url: str, clock: Clock) -> None:
    """Raises StoreError when it cannot be done, StoreUnavailable when nothing answers for `PATIENCE` seconds."""
    end = clock.boottime() + PATIENCE
    while True:
        store = open_store(url, clock=clock, new_id=new_id)
        try:
            return store.migrate()
        except StoreUnavailable as error:
            if clock.boottime() >= end:
                raise
            say(f"the database does not answer yet: {error}")
        finally:
            store.close()
        time.sleep(PAUSE)


def say(text: str) -> None:
    sys.stderr.write(f"muster migrate: {text}\n")


def main() -> int:
    url = os.environ.get("MUSTER_DATABASE_URL")
    if not url:
        say("MUSTER_DATABASE_URL is not set, e.g. postgresql+psycopg://muster@db/muster")
        return 2
    try:
        migrate(url, SystemClock())
    except StoreError as error:
        say(str(error))
        return 1
    say(f"the database is at schema {HEAD}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
