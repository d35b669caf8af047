"""How much is kept. What a job reports must not fill the database."""

from collections.abc import Sequence
from typing import Final

MEASUREMENT_SECONDS: Final = 90 * 86400.0
EVIDENCE_ITEMS: Final = 200
EVIDENCE_BYTES: Final = 2**20
"""Of one attempt. The earliest evidence wins, so what comes after the limit is dropped."""

EVIDENCE_TEXT: Final = 2**16
"""Characters of one item's text; the end is kept, where the traceback is."""

EVENTS: Final = 200
"""Newest of one object."""

PROGRESS_POINTS: Final = 2_000
"""Of one attempt; more are thinned out to about three quarters."""

REMEMBERED_SECONDS: Final = 24 * 3600.0
SESSION_SECONDS: Final = 24 * 3600.0
"""The longest that a session with a worker (exec, attach, port-forward) lasts."""

OUTBOX_SECONDS: Final = 7 * 24 * 3600.0
"""Of an item that is done or dead."""

OUTBOX_TRIES: Final = 12
"""Failures after which an outbox item is dead."""


def thin(count: int) -> Sequence[int]:
    """Which of `count` points, oldest first, to drop: of the older half every second one. The first and the newest
    half always stay."""
    return range(1, count // 2, 2) if count > PROGRESS_POINTS else ()
