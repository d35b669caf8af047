"""The outbox: side effects that were promised in a transaction and are done afterwards, at least once."""

from typing import Any, Final

from sqlalchemy import Connection, bindparam, case, select, update

from controller.state import tables
from controller.state.limits import OUTBOX_TRIES
from controller.state.types import OutboxItem

FARTHEST: Final = 3600.0
"""Seconds: nothing is put off for longer. What seems to be was so by a process whose clock was ahead, and is due."""

_box = tables.outbox
_due = (
    select(_box)
    .where(
        _box.c.state == "due",
        (_box.c.next_at <= bindparam("now")) | (_box.c.next_at > bindparam("now") + FARTHEST),
    )
    .order_by(_box.c.next_at, _box.c.created_at, _box.c.id)
    .limit(bindparam("limit"))
)
_item = select(_box).where(_box.c.id == bindparam("the_id"))
_still_due = update(_box).where(_box.c.id == bindparam("the_id"), _box.c.state == "due")
_done = _still_due.values(state="done", done_at=bindparam("now"), error="")
_failed = _still_due.values(
    tries=_box.c.tries + 1,
    error=bindparam("why"),
    next_at=bindparam("next"),
    state=case((_box.c.tries + 1 >= OUTBOX_TRIES, "dead"), else_="due"),
    done_at=case((_box.c.tries + 1 >= OUTBOX_TRIES, bindparam("now")), else_=None),
).returning(_box.c.state)
_in_state = select(_box).where(_box.c.state == bindparam("the_state"))
_oldest = _in_state.order_by(_box.c.created_at, _box.c.id).limit(bindparam("limit"))
_revive = (
    update(_box)
    .where(_box.c.id == bindparam("the_id"), _box.c.state == "dead")
    .values(state="due", tries=0, next_at=bindparam("now"), done_at=None)
)
_later = _still_due.values(next_at=bindparam("next"))


def due(connection: Connection, now: float, limit: int) -> list[OutboxItem]:
    return [_read(row) for row in connection.execute(_due, {"now": now, "limit": limit})]


def item(connection: Connection, id: str) -> OutboxItem | None:  # noqa: A002
    row = connection.execute(_item, {"the_id": id}).first()
    return None if row is None else _read(row)


def select_state(connection: Connection, state: str, limit: int) -> list[OutboxItem]:
    return [_read(row) for row in connection.execute(_oldest, {"the_state": state, "limit": limit})]


def revive(connection: Connection, id: str, now: float) -> bool:  # noqa: A002
    return connection.execute(_revive, {"the_id": id, "now": now}).rowcount == 1


def done(connection: Connection, id: str, now: float) -> None:  # noqa: A002
    connection.execute(_done, {"the_id": id, "now": now})


def failed(connection: Connection, id: str, error: str, next_at: float, now: float) -> bool:  # noqa: A002
    row = connection.execute(_failed, {"the_id": id, "why": error, "next": next_at, "now": now}).first()
    return row is not None and row[0] == "dead"


def later(connection: Connection, id: str, next_at: float) -> None:  # noqa: A002
    connection.execute(_later, {"the_id": id, "next": next_at})


def _read(row: Any) -> OutboxItem:
    return OutboxItem(**row._mapping)
