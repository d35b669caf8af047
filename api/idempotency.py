"""POST at most once: a repeat with the same Idempotency-Key gets what the first one got."""

from collections.abc import Callable

from api.problems import conflict
from api.requests import Once
from api.services import Services
from controller.state import Reading, Taken, Writer

Answer = tuple[int, str]
"""The status and the uid of the object that the request made or changed."""


def only_once(here: Services, once: Once | None, fn: Callable[[Writer], Answer]) -> Answer:
    """`fn` in one transaction together with the memory that it was done. Raises Problem 409 when the key was used for
    another request."""

    def act(w: Writer) -> Answer:
        if once is None:
            return fn(w)
        done = _remembered(w, once)
        if done is None:
            done = fn(w)
            w.remember(once.key, once.body_hash, list(done))
        return done

    try:
        return here.write(act)
    except Taken:
        # Two at once: the other one has committed first.
        if once is not None:
            with here.store.read() as r:
                if (done := _remembered(r, once)) is not None:
                    return done
        raise


def _remembered(r: Reading, once: Once) -> Answer | None:
    found = r.remembered(once.key)
    if found is None:
        return None
    if found.body_hash != once.body_hash:
        raise conflict("this Idempotency-Key was used for another request", code="IDEMPOTENCY_KEY_REUSED")
    status, uid = found.response
    return int(status), str(uid)
