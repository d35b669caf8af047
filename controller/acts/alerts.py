"""What the planner finds amiss with the cluster itself, told as events: once when it comes up, and once when it is over."""

from collections.abc import Sequence

from controller.state.store import Store
from controller.state.types import LeaderLease
from controller.state.writing import Writer

UID = "cluster"
"""What the events of the whole cluster are about."""
LOOKED_AT = 200
RAISED, OVER = "Alert", "AlertOver"


def standing(messages: Sequence[tuple[str, str]]) -> set[str]:
    """The alerts that were raised and are not over, from (reason, message) of the cluster's events, oldest first."""
    found: set[str] = set()
    for reason, message in messages:
        if reason == RAISED:
            found.add(message)
        elif reason == OVER:
            found.discard(message)
    return found


def write_alerts(
    store: Store, guard: LeaderLease, known: set[str] | None, alerts: Sequence[str], now: float
) -> set[str]:
    """The alerts that stand. `known` are those that this leader has told of; None: ask what was told before it."""
    wanted = set(alerts)
    if wanted == known:
        return wanted
    with store.write(guard) as w:
        before = known if known is not None else _told(w)
        for message in sorted(wanted - before):
            _tell(w, RAISED, message, now)
        for message in sorted(before - wanted):
            _tell(w, OVER, message, now)
    return wanted


def _told(w: Writer) -> set[str]:
    return standing([(event.reason, event.message) for event in w.events(object_uid=UID, limit=LOOKED_AT)])


def _tell(w: Writer, reason: str, message: str, now: float) -> None:
    w.add_event(
        namespace="",
        kind="Cluster",
        object_uid=UID,
        name=UID,
        reason=reason,
        message=message,
        level="warning" if reason == RAISED else "normal",
        at=now,
    )
