"""One call of a web hook: an idempotent step on one outbox item."""

from typing import Final

import httpx2
import structlog

from controller.state.store import Store
from controller.tasks.backoff import Backoff, delay
from muster.clock import Clock

log = structlog.get_logger("muster.tasks")

TIMEOUTS: Final = httpx2.Timeout(10.0, connect=5.0)
LONGEST_ERROR: Final = 500  # characters kept


class Refused(Exception):
    """The receiver answered, but not with success."""


def call(
    store: Store,
    client: httpx2.Client,
    id: str,  # noqa: A002
    turn: float,
    *,
    clock: Clock,
    backoff: Backoff,
) -> None:
    """POST the item's payload, without its `url`, to that URL; then it is done, or failed and due again later.
    Success is a status of 200 to 299; redirects are not followed. An item that is done, dead or gone is left alone, and
    so is one that is due at another time than `turn`: it has failed or been sent again since, and this message is old.
    Raises StoreError only: then the item is as it was, and is sent again."""
    item = store.outbox_item(id)
    if item is None or item.state != "due" or item.next_at != turn:
        return
    body = dict(item.payload)
    try:
        _post(client, body.pop("url", ""), body, item.key)
    except Exception as error:  # whatever a URL, a resolver or a receiver can do wrong is this item's failure
        why = f"{type(error).__name__}: {error}" if not isinstance(error, Refused) else str(error)
        dead = store.outbox_failed(id, why[:LONGEST_ERROR], clock.now() + delay(backoff, item.tries + 1))
        log.warning("web hook failed", id=id, key=item.key, failures=item.tries + 1, given_up=dead, error=why)
        return
    store.outbox_done(id)
    log.info("web hook called", id=id, key=item.key)


def _post(client: httpx2.Client, url: str, body: dict[str, object], key: str) -> None:
    """The answer's body is not read: it may be of any size, and it says nothing to us."""
    headers = {"Idempotency-Key": key}
    with client.stream("POST", url, json=body, headers=headers, timeout=TIMEOUTS) as answer:
        if not answer.is_success:
            raise Refused(f"the receiver answered {answer.status_code} {answer.reason_phrase}".rstrip())
