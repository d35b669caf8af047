"""SELECT and UPDATE statements of the kinds, each built once: SQLAlchemy compiles a statement it has seen no second
time, and psycopg prepares it on the server."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    Connection,
    Insert,
    Select,
    Table,
    TextClause,
    Update,
    bindparam,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from controller.state.columns import rows_json, shape_of
from controller.state.kinds import Kind
from muster.states import sources

BATCH = 1_000
"""Most values in one IN."""


@cache
def select_by(
    kind: Kind[Any],
    *by: str,
    order: tuple[str, ...] = (),
    live: TextClause | None = None,
    lock: bool = False,
    many: bool = False,
) -> Select[Any]:
    """Rows whose columns `by` equal the parameters of the same names (`many`: lie in the lists of these names)."""
    table = kind.table
    statement = select(*kind.columns)
    for name in by:
        parameter: BindParameter[Any] = bindparam(name, expanding=many, unique=False)
        statement = statement.where(table.c[name].in_(parameter) if many else table.c[name] == parameter)
    if live is not None:
        statement = statement.where(live)
    if order:
        statement = statement.order_by(*(table.c[name] for name in order))
    return statement.with_for_update(key_share=True) if lock else statement


@cache
def insert_into(table: Table) -> Insert:
    return insert(table)


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows with the same columns. On PostgreSQL many are one parameter of one statement, one trip to the server."""
    if connection.dialect.name != "postgresql" or len(rows) < 2:
        connection.execute(insert_into(table), [dict(row) for row in rows])
        return
    connection.exec_driver_sql(_insert_recordset(table, tuple(rows[0])), {"rows": rows_json(table, rows)})


def insert_new(connection: Connection, table: Table, keys: tuple[str, ...], rows: Sequence[Mapping[str, Any]]) -> int:
    """Like `insert_rows`, but rows stay whose `keys` are there already. How many were inserted."""
    if connection.dialect.name != "postgresql" or len(rows) < 2:
        return connection.execute(insert_or(connection.dialect.name, table, keys), [dict(row) for row in rows]).rowcount
    statement = f"{_insert_recordset(table, tuple(rows[0]))} ON CONFLICT ({', '.join(keys)}) DO NOTHING"
    return connection.exec_driver_sql(statement, {"rows": rows_json(table, rows)}).rowcount


@cache
def _insert_recordset(table: Table, names: tuple[str, ...]) -> str:
    columns = ", ".join(f'"{name}"' for name in names)
    return (
        f"INSERT INTO {table.name} ({columns}) SELECT {columns} "
        f"FROM json_to_recordset(%(rows)s::json) AS e({shape_of(table, names)})"
    )


@cache
def insert_or(
    dialect: str, table: Table, keys: tuple[str, ...], replace: tuple[str, ...] = (), add: tuple[str, ...] = ()
) -> Any:
    """INSERT that, where a row with the same `keys` stands, replaces the columns `replace` and adds to the columns
    `add`; without either it keeps that row."""
    build = postgresql.insert if dialect == "postgresql" else sqlite.insert
    statement = build(table).execution_options(preserve_rowcount=True)
    if not replace and not add:
        return statement.on_conflict_do_nothing(index_elements=list(keys))
    new = {name: statement.excluded[name] for name in replace}
    grown = {name: table.c[name] + statement.excluded[name] for name in add}
    return statement.on_conflict_do_update(index_elements=list(keys), set_=new | grown)


@cache
def patching(kind: Kind[Any], versioned: bool) -> Update:
    """UPDATE of one row by its key (parameter `the_key`), at a known revision (parameter `the_revision`) only when
    `versioned`. The columns to set are the other parameters."""
    statement = update(kind.table).where(kind.table.c[kind.key] == bindparam("the_key"))
    if versioned:
        statement = statement.where(kind.table.c.revision == bindparam("the_revision"))
    return statement.returning(*kind.columns)


@cache
def moving(kind: Kind[Any], target: str) -> Update:
    """`patching`, but only from the phases that may lead to `target`."""
    assert kind.moves is not None
    allowed = sorted(sources(kind.moves, kind.phases(target)))
    return patching(kind, False).where(kind.table.c.phase.in_(allowed))


@cache
def changing_all(kind: Kind[Any], names: tuple[str, ...], target: str | None) -> Any:
    """PostgreSQL: UPDATE of many rows by their keys, from JSON objects with these columns and `the_key`; with `target`
    only from the phases that may lead there."""
    table = kind.table.name
    sets = ", ".join(f'"{name}" = e."{name}"' for name in names)
    where = ""
    if target is not None:
        assert kind.moves is not None
        allowed = sorted(sources(kind.moves, kind.phases(target)))
        where = f" AND t.phase IN ({', '.join(repr(str(phase)) for phase in allowed)})"
    returned = ", ".join(f't."{column.name}"' for column in kind.columns)
    return text(
        f"UPDATE {table} AS t SET {sets} FROM json_to_recordset(CAST(:rows AS json)) "
        f"AS e(the_key text, {shape_of(kind.table, names)}) WHERE t.{kind.key} = e.the_key{where} RETURNING {returned}"
    ).columns(*kind.columns)


@cache
def stamping(kind: Kind[Any]) -> Update:
    return update(kind.table).where(kind.table.c.uid == bindparam("the_uid"))


def batches(values: Iterable[str]) -> Iterable[list[str]]:
    """Without repeats, in pieces that fit one IN."""
    unique = list(dict.fromkeys(values))
    for start in range(0, len(unique), BATCH):
        yield unique[start : start + BATCH]
