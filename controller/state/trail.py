"""The audit trail: who asked for which write, and what became of it.

What was done is written in the transaction that does it, so neither can be without the other; what was refused is
written by who refused it.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, select

from controller.state import tables
from controller.state.appending import Touched
from controller.state.statements import batches, insert_rows
from controller.state.types import Actor, AuditEntry

CHANGE_BYTES: Final = 4096
"""Of one entry's change; of a longer one only the names of its fields are kept."""

OVERHEAD: Final = 300
"""Bytes of an entry beside its change, about."""

DONE: Final = "done"
_UNASKED: Final = frozenset({"Event", "Worker", "Attempt", "Checkpoint"})
"""Kinds that nobody writes himself: they follow from what he asked."""

_columns = tuple(tables.audit.c[field] for field in AuditEntry.__struct_fields__)


SAME: Final = "sameAs"
"""The only key of a change that another entry has written out: its uid is the value."""
WORTH: Final = 256
"""Bytes of a change from which on it is kept once."""


def entries(touched: Iterable[Touched], at: float, new_id: Callable[[], str]) -> list[AuditEntry]:
    """One entry for each resource that a transaction has written for somebody."""
    return _each_change_once(_entries(touched, at, new_id))


def _each_change_once(made: list[AuditEntry]) -> list[AuditEntry]:
    """Equal changes of a namespace, such as the manifests of a list of jobs, are written out in one entry: the last in
    the order of uids, which is the last to be pruned."""
    like: dict[tuple[str, bytes], list[AuditEntry]] = {}
    for one in made:
        if one.size > WORTH + OVERHEAD:
            like.setdefault((one.namespace, msgspec.json.encode(one.change)), []).append(one)
    keeper: dict[str, str] = {}
    for some in like.values():
        last = max(one.uid for one in some)
        keeper |= {one.uid: last for one in some if one.uid != last}
    return [replace(one, change={SAME: keeper[one.uid]}, size=OVERHEAD) if one.uid in keeper else one for one in made]


def _entries(touched: Iterable[Touched], at: float, new_id: Callable[[], str]) -> list[AuditEntry]:
    return [
        entry(
            one.actor,
            at=at,
            uid=new_id(),
            verb=one.verb,
            namespace=one.namespace,
            kind=one.kind.name,
            name=one.name,
            change=one.change,
        )
        for one in touched
        if one.actor is not None and one.kind.name not in _UNASKED
    ]


def entry(
    actor: Actor,
    *,
    at: float,
    uid: str,
    verb: str,
    namespace: str,
    kind: str,
    name: str,
    outcome: str = DONE,
    change: dict[str, Any],
) -> AuditEntry:
    size = len(msgspec.json.encode(change))
    if size > CHANGE_BYTES:
        change = {"tooLong": size, "fields": sorted(change)[:50]}
        size = len(msgspec.json.encode(change))
    return AuditEntry(
        uid=f"{int(at * 1000):013d}-{uid}",
        at=at,
        actor=actor.name,
        role=actor.role,
        request_id=actor.request_id,
        verb=verb,
        namespace=namespace,
        kind=kind,
        name=name,
        outcome=outcome,
        change=change,
        size=size + OVERHEAD,
    )


def append(connection: Connection, written: list[AuditEntry]) -> None:
    if written:
        rows = [{field: getattr(one, field) for field in AuditEntry.__struct_fields__} for one in written]
        insert_rows(connection, tables.audit, rows)


def read(
    connection: Connection,
    *,
    after: str = "",
    since: float | None = None,
    until: float | None = None,
    namespace: str | None = None,
    actor: str | None = None,
    limit: int = 1000,
) -> list[AuditEntry]:
    """The first entries in the order of their time; `since` and `until` in UTC seconds, `after` the uid of the last
    one that is known already."""
    table = tables.audit.c
    wanted = select(*_columns).where(table.uid > after).order_by(table.uid).limit(limit)
    for column, value in ((table.namespace, namespace), (table.actor, actor)):
        if value is not None:
            wanted = wanted.where(column == value)
    if since is not None:
        wanted = wanted.where(table.at >= since)
    if until is not None:
        wanted = wanted.where(table.at < until)
    return _written_out(connection, [AuditEntry(**row._mapping) for row in connection.execute(wanted)])


def _written_out(connection: Connection, found: list[AuditEntry]) -> list[AuditEntry]:
    """With the changes that other entries hold."""
    needed = {one.change[SAME] for one in found if one.change.keys() == {SAME}}
    known: dict[str, dict[str, Any]] = {}
    for batch in batches(needed):
        rows = connection.execute(
            select(tables.audit.c.uid, tables.audit.c.change).where(tables.audit.c.uid.in_(batch))
        )
        known |= {row.uid: row.change for row in rows}
    return [replace(one, change=known.get(one.change.get(SAME, ""), one.change)) for one in found]
