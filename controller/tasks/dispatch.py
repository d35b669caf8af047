"""From the outbox to the broker."""

from typing import Final

import structlog
from celery import Celery
from kombu.exceptions import OperationalError

from controller.state.store import Store
from controller.tasks.app import TASKS, VISIBILITY_SECONDS

log = structlog.get_logger("muster.tasks")

AWAY_SECONDS: Final = 5.0
"""How long nothing is sent after Redis did not answer."""


def dispatch(store: Store, app: Celery, now: float, *, visibility: float = VISIBILITY_SECONDS) -> None:
    """Send every due item as a task whose id is the item's. It is postponed first, by `visibility` seconds: whatever
    is lost on the way, message, worker or all of Redis, it is due again then. That time goes with the message, and makes
    every older message of the same item void. Redis away: the items wait for a while. Raises StoreError only."""
    due = store.outbox_due(now)
    for item in due:
        if item.kind not in TASKS:
            store.outbox_failed(item.id, f"there is no task for the kind {item.kind!r}", now + visibility)
            continue
        turn = now + visibility
        store.outbox_postpone(item.id, turn)
        try:
            app.send_task(TASKS[item.kind], args=[item.id, turn], task_id=item.id, retry=False)  # type: ignore[no-untyped-call]
        except (OperationalError, OSError) as error:
            log.warning("Redis does not answer; what is due waits", error=str(error), items=len(due))
            _wait(store, [other.id for other in due[due.index(item) :]], now + AWAY_SECONDS)
            return


def _wait(store: Store, ids: list[str], next_at: float) -> None:
    """All of them, so that the loop does not stand still at each of its next cycles."""
    for id_ in ids:
        store.outbox_postpone(id_, next_at)
