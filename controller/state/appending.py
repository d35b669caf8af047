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
from controller.state.columns import mend, rows_json, shape_of
from controller.state.kinds import KINDS, Kind, namespace_of
from controller.state.statements import insert_into, stamping
from controller.state.types import Actor

_take = (
    update(tables.revision)
    .values(value=tables.revision.c.value + bindparam("count"))
    .returning(tables.revision.c.value)
)


class Touched(msgspec.Struct, frozen=True):
    """A record that this transaction has put or deleted."""

    kind: Kind[Any]
    uid: str
    namespace: str
    name: str
    op: Literal["put", "delete"]
    row: dict[str, Any] | None = None
    """Of what is inserted only at the end, with its revision."""
    verb: str = "update"
    change: dict[str, Any] = {}
    """For the audit trail: the fields that were written."""
    actor: Actor | None = None


class Buffer:
    """The changes of one transaction. What is touched twice is logged once, at its last touch."""

    def __init__(self) -> None:
        self._touched: dict[tuple[str, str], Touched] = {}
        self.actor: Actor | None = None

    def put(
        self,
        kind: Kind[Any],
        record: Any,
        *,
        change: dict[str, Any] | None = None,
        row: dict[str, Any] | None = None,
    ) -> None:
        """`change` are the fields that were written; None: the record is new. `row`: it is inserted at the end."""
        verb = "update"
        if change is None:
            spec = getattr(record, "spec", None)
            verb, change = "create", {} if spec is None else {"spec": spec}
        label = mend(kind.label(record))
        self._add(Touched(kind, record.uid, namespace_of(record), label, "put", row, verb, change, self.actor))

    def delete(self, kind: Kind[Any], record: Any) -> None:
        label = mend(kind.label(record))
        self._add(Touched(kind, record.uid, namespace_of(record), label, "delete", verb="delete", actor=self.actor))

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
    born: dict[Kind[Any], list[dict[str, Any]]] = {}
    log = []
    for revision, one in enumerate(touched, last - len(touched) + 1):
        if one.row is not None:
            born.setdefault(one.kind, []).append(one.row | {"revision": revision})
        elif one.op == "put":
            stamps.setdefault(one.kind, []).append({"the_uid": one.uid, "revision": revision})
        log.append(_entry(one) | {"revision": revision, "at": at})
    for kind, rows in stamps.items():
        connection.execute(stamping(kind), rows)
    for kind, rows in born.items():
        connection.execute(insert_into(kind.table), rows)
    connection.execute(insert_into(tables.changes), log)
    return last


def _append_in_one_trip(connection: Connection, touched: list[Touched], at: float) -> int:
    entries = [_entry(one) | {"n": n} for n, one in enumerate(touched, 1)]
    born: dict[str, list[dict[str, Any]]] = {}
    places: dict[str, list[dict[str, int]]] = {}
    for n, one in enumerate(touched, 1):
        if one.row is not None:
            one.row.pop("revision", None)
            born.setdefault(one.kind.name, []).append(one.row)
            places.setdefault(one.kind.name, []).append({"n": n})
    stamped = sorted({one.kind.name for one in touched if one.op == "put" and one.row is None})
    shapes = tuple((name, tuple(rows[0])) for name, rows in sorted(born.items()))
    parameters: dict[str, Any] = {"count": len(touched), "at": at, "entries": msgspec.json.encode(entries).decode()}
    parameters |= {f"born_{name}": rows_json(KINDS[name].table, rows, places[name]) for name, rows in born.items()}
    return int(connection.exec_driver_sql(_one_trip(tuple(stamped), shapes), parameters).scalars().all()[0])


@cache
def _one_trip(stamped: tuple[str, ...], born: tuple[tuple[str, tuple[str, ...]], ...]) -> str:
    """The statement that stamps records of some kinds, and inserts those of others with these columns. All its parts
    see the revision that `taken` got."""
    parts = [_TAKEN, _ENTRY, *map(_stamp, stamped), *(_insert_born(name, columns) for name, columns in born)]
    return f"""
    WITH {",".join(parts)}
    INSERT INTO changes (revision, kind, uid, namespace, name, op, at)
    SELECT base + n, kind, uid, namespace, name, op, %(at)s::double precision FROM taken, entry ORDER BY n
    RETURNING (SELECT base + %(count)s::bigint FROM taken)
    """


_TAKEN = """
    taken AS (UPDATE revision SET value = value + %(count)s::bigint RETURNING value - %(count)s::bigint AS base)"""
_ENTRY = """
    entry AS MATERIALIZED (
        SELECT * FROM json_to_recordset(%(entries)s::json)
        AS e(n bigint, kind text, uid text, namespace text, name text, op text)
    )"""


def _stamp(name: str) -> str:
    table = KINDS[name].table.name
    return f"""
    stamped_{table} AS (
        UPDATE {table} AS t SET revision = base + n FROM taken, entry
        WHERE entry.kind = '{name}' AND entry.op = 'put' AND t.uid = entry.uid
    )"""


def _entry(one: Touched) -> dict[str, Any]:
    return {"kind": one.kind.name, "uid": one.uid, "namespace": one.namespace, "name": one.name, "op": one.op}


def _insert_born(name: str, columns: tuple[str, ...]) -> str:
    table = KINDS[name].table
    named = ", ".join(f'"{column}"' for column in columns)
    taken = ", ".join(f'e."{column}"' for column in columns)
    return f"""
    born_{table.name} AS (
        INSERT INTO {table.name} ({named}, revision) SELECT {taken}, base + n
        FROM taken, json_to_recordset(%(born_{name})s::json) AS e(n bigint, {shape_of(table, columns)})
    )"""
