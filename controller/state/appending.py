"""Writing the change log. Revisions are taken from one row at the end of a transaction and its lock is held until the
commit is visible, so they are gapless and in commit order: whoever has read up to N misses nothing that comes.

That lock is where all writers queue, so as little as possible happens under it: on PostgreSQL everything at the end
of a transaction is one statement, one trip to the server.
"""

from collections.abc import Collection
from functools import cache
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, bindparam, update

from controller.state import tables
from controller.state.columns import mend
from controller.state.kinds import EVENT, KINDS, Kind, namespace_of
from controller.state.statements import insert_into, stamping

_take = (
    update(tables.revision)
    .values(value=tables.revision.c.value + bindparam("count"))
    .returning(tables.revision.c.value)
)


class Touched(msgspec.Struct, frozen=True):
    """A record that this transaction has put or deleted. An event is inserted only at the end, with its revision."""

    kind: Kind[Any]
    uid: str
    namespace: str
    name: str
    op: Literal["put", "delete"]
    event: dict[str, Any] | None = None
    verb: str = "update"
    change: dict[str, Any] = {}
    """For the audit trail: the fields that were written."""


class Buffer:
    """The changes of one transaction. What is touched twice is logged once, at its last touch."""

    def __init__(self) -> None:
        self._touched: dict[tuple[str, str], Touched] = {}

    def put(self, kind: Kind[Any], record: Any, *, change: dict[str, Any] | None = None) -> None:
        """`change` are the fields that were written; None: the record is new."""
        verb = "update"
        if change is None:
            spec = getattr(record, "spec", None)
            verb, change = "create", {} if spec is None else {"spec": spec}
        event = kind.values(record) if kind is EVENT else None
        self._add(Touched(kind, record.uid, namespace_of(record), mend(kind.label(record)), "put", event, verb, change))

    def delete(self, kind: Kind[Any], record: Any) -> None:
        label = mend(kind.label(record))
        self._add(Touched(kind, record.uid, namespace_of(record), label, "delete", verb="delete"))

    def touched(self) -> Collection[Touched]:
        """In the order of the last touch."""
        return self._touched.values()

    def _add(self, touched: Touched) -> None:
        key = (touched.kind.name, touched.uid)
        before = self._touched.pop(key, None)
        if before is not None and touched.op == "put":
            verb = "create" if before.verb == "create" else touched.verb
            touched = msgspec.structs.replace(touched, verb=verb, change=before.change | touched.change)
        self._touched[key] = touched

    def write(self, connection: Connection, at: float) -> dict[str, int]:
        """Take the revisions, stamp the records, write the log. The revisions by uid. Nothing touched: nothing taken."""
        touched = list(self._touched.values())
        if not touched:
            return {}
        append = _append_in_one_trip if connection.dialect.name == "postgresql" else _append
        last = append(connection, touched, at)
        return {one.uid: revision for revision, one in enumerate(touched, last - len(touched) + 1)}


def _append(connection: Connection, touched: list[Touched], at: float) -> int:
    last = int(connection.execute(_take, {"count": len(touched)}).scalar_one())
    stamps: dict[Kind[Any], list[dict[str, Any]]] = {}
    events, log = [], []
    for revision, one in enumerate(touched, last - len(touched) + 1):
        if one.event is not None:
            events.append(one.event | {"revision": revision})
        elif one.op == "put":
            stamps.setdefault(one.kind, []).append({"the_uid": one.uid, "revision": revision})
        log.append(_entry(one) | {"revision": revision, "at": at})
    for kind, rows in stamps.items():
        connection.execute(stamping(kind), rows)
    if events:
        connection.execute(insert_into(tables.events), events)
    connection.execute(insert_into(tables.changes), log)
    return last


def _append_in_one_trip(connection: Connection, touched: list[Touched], at: float) -> int:
    entries = [_entry(one) | {"n": n} for n, one in enumerate(touched, 1)]
    events = [_mended(one.event) | {"n": n} for n, one in enumerate(touched, 1) if one.event is not None]
    stamped = sorted({one.kind.name for one in touched if one.op == "put" and one.event is None})
    parameters = {
        "count": len(touched),
        "at": at,
        "entries": msgspec.json.encode(entries).decode(),
        "events": msgspec.json.encode(events).decode(),
    }
    return int(connection.exec_driver_sql(_one_trip(tuple(stamped)), parameters).scalars().all()[0])


@cache
def _one_trip(stamped: tuple[str, ...]) -> str:
    """The statement that stamps records of these kinds. All its parts see the revision that `taken` got."""
    fields = [field for field in EVENT.fields if field != "revision"]
    shape = ", ".join(f"{field} {'double precision' if field == 'at' else 'text'}" for field in fields)
    stamps = "".join(
        f"""
        stamped_{KINDS[name].table.name} AS (
            UPDATE {KINDS[name].table.name} AS t SET revision = base + n FROM taken, entry
            WHERE entry.kind = '{name}' AND entry.op = 'put' AND t.uid = entry.uid
        ),"""
        for name in stamped
    )
    return f"""
    WITH
        taken AS (
            UPDATE revision SET value = value + %(count)s::bigint RETURNING value - %(count)s::bigint AS base
        ),
        entry AS MATERIALIZED (
            SELECT * FROM json_to_recordset(%(entries)s::json)
            AS e(n bigint, kind text, uid text, namespace text, name text, op text)
        ),{stamps}
        told AS (
            INSERT INTO events ({", ".join(fields)}, revision)
            SELECT {", ".join("e." + field for field in fields)}, base + n
            FROM taken, json_to_recordset(%(events)s::json) AS e(n bigint, {shape})
        )
    INSERT INTO changes (revision, kind, uid, namespace, name, op, at)
    SELECT base + n, kind, uid, namespace, name, op, %(at)s::double precision FROM taken, entry ORDER BY n
    RETURNING (SELECT base + %(count)s::bigint FROM taken)
    """


def _entry(one: Touched) -> dict[str, Any]:
    return {"kind": one.kind.name, "uid": one.uid, "namespace": one.namespace, "name": one.name, "op": one.op}


def _mended(event: dict[str, Any]) -> dict[str, Any]:
    return {name: mend(value) if isinstance(value, str) else value for name, value in event.items()}
