"""The garbage collector of servers: they keep much that lives long, and make little that only it can free."""

import gc
from typing import Final

NEW_OBJECTS: Final = 50_000


def seldom_collect() -> None:
    """What is there now is never looked at again, and what comes is only looked at when there is much of it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 20, 20)
