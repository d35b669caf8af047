"""Column types, and the columns of a record: each field of a Struct becomes one column.

Plain fields become plain columns, so that SQL can select and move by them; structured ones become JSON in a
TEXT column, encoded and decoded by msgspec with the field's own type.
"""

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cache
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Boolean, Column, Dialect, Double, Table, Text
from sqlalchemy.dialects import sqlite
from sqlalchemy.types import TypeDecorator, TypeEngine


def mend(value: str) -> str:
    """What PostgreSQL or UTF-8 cannot hold (NUL, lone surrogates) becomes U+FFFD."""
    if value.isascii() and "\0" not in value:
        return value
    return value.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Words(TypeDecorator[str]):
    """Text from anywhere, mended."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else mend(value)


class Choice(TypeDecorator[StrEnum]):
    """A StrEnum kept as its value."""

    impl = Text
    cache_ok = True

    def __init__(self, enum: type[StrEnum]) -> None:
        super().__init__()
        self.enum = enum

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        return None if value is None else self.enum(value)


class Json(TypeDecorator[Any]):
    """Any msgspec type as JSON text."""

    impl = Text
    cache_ok = True

    def __init__(self, type_: Any) -> None:
        super().__init__()
        self.type_ = type_
        self._decoder = msgspec.json.Decoder(type_)

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else msgspec.json.encode(value).decode()

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else self._decoder.decode(value)


_PLAIN: dict[Any, type[TypeEngine[Any]]] = {str: Words, int: BigInteger, float: Double, bool: Boolean}


def columns_of(record: type[msgspec.Struct], *, key: tuple[str, ...]) -> list[Column[Any]]:
    """The columns for all fields of `record`, in order; `key` is the primary key."""
    return [_column(name, hint, name in key) for name, hint in typing.get_type_hints(record).items()]


def _column(name: str, hint: Any, primary: bool) -> Column[Any]:
    hint, nullable = _without_none(hint)
    return Column(name, _type(hint), primary_key=primary, nullable=nullable, autoincrement=False)


def _without_none(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        rest = [part for part in typing.get_args(hint) if part is not type(None)]
        if len(rest) < len(typing.get_args(hint)):
            return (rest[0] if len(rest) == 1 else typing.Union[tuple(rest)]), True  # noqa: UP007
    return hint, False


def _type(hint: Any) -> TypeEngine[Any]:
    if typing.get_origin(hint) is typing.Literal:
        return Words()
    if hint in _PLAIN:
        return _PLAIN[hint]()
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return Choice(hint)
    return Json(hint)


@cache
def _binders(table: Table) -> dict[str, Callable[[Any], Any] | None]:
    dialect = sqlite.dialect()
    return {column.name: _binder(column.type, dialect) for column in table.columns}


def _binder(kind: TypeEngine[Any], dialect: Dialect) -> Callable[[Any], Any] | None:
    if not isinstance(kind, TypeDecorator):
        return mend if isinstance(kind, Text) else None
    return lambda value: kind.process_bind_param(value, dialect)


def bound(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row as a driver would get them: text, numbers, booleans, None."""
    binders = _binders(table)
    return {
        name: value if value is None or (bind := binders[name]) is None else bind(value) for name, value in row.items()
    }


def rows_json(table: Table, rows: Sequence[Mapping[str, Any]], more: Sequence[Mapping[str, Any]] = ()) -> str:
    """The rows as json_to_recordset of PostgreSQL takes them, each with the values of `more` (numbers). What is kept as
    JSON stays nested, for the text of an object in JSON is its value in a text column."""
    made = [{**row, **extra} for row, extra in zip(rows, more, strict=True)] if more else rows
    if _nests(table):
        with suppress(UnicodeEncodeError):
            found = msgspec.json.encode(made).decode()
            if "\\u0000" not in found:
                return found
    bounds = [bound(table, row) for row in rows]
    made = [{**row, **extra} for row, extra in zip(bounds, more, strict=True)] if more else bounds
    return msgspec.json.encode(made).decode()


@cache
def _nests(table: Table) -> bool:
    """Whether what the JSON columns hold is always an object or a list: a string would lose its quotes."""
    return all(_is_nest(column.type.type_) for column in table.columns if isinstance(column.type, Json))


def _is_nest(hint: Any) -> bool:
    found = typing.get_origin(hint) or hint
    return isinstance(found, type) and issubclass(found, dict | list | tuple | msgspec.Struct)


_POSTGRESQL = {BigInteger: "bigint", Double: "double precision", Boolean: "boolean"}


@cache
def shape_of(table: Table, names: tuple[str, ...]) -> str:
    """These columns with their types, as PostgreSQL's json_to_recordset wants them."""
    return ", ".join(f'"{name}" {_POSTGRESQL.get(type(table.c[name].type), "text")}' for name in names)
