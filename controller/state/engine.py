"""Connections: SQLite (write-ahead log, one writer) and PostgreSQL, and what their errors mean."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, exc
from sqlalchemy.engine import URL, make_url

from controller.state.errors import (
    BadValue,
    Contended,
    NotFound,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
    Taken,
)
from muster.filesystem import check_local_filesystem

BUSY_SECONDS: Final = 10.0
"""How long a writer waits for another one."""

_RETRY_STATES: Final = frozenset({"40001", "40P01", "55P03"})  # serialisation, deadlock, lock timeout
_WRITE: Final = "muster_write"


def make_engine(url: str) -> Engine:
    """An engine for `sqlite:///FILE` or `postgresql+psycopg://...` (`postgresql://` means the same). Raises
    StoreError for another database, for SQLite in memory and for a file on a network file system."""
    parsed = _parse(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed)
    return create_engine(
        parsed,
        pool_size=8,
        max_overflow=8,
        pool_timeout=BUSY_SECONDS,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": 5,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 20_000,
            "application_name": "muster",
            "options": "-c lock_timeout=10s -c statement_timeout=60s -c idle_in_transaction_session_timeout=60s",
        },
    )


def for_writing(engine: Engine) -> Engine:
    """The same pool; transactions that may write. PostgreSQL: READ COMMITTED, order comes from row locks."""
    return engine.execution_options(**{_WRITE: True})


def for_reading(engine: Engine) -> Engine:
    """The same pool; each transaction sees one snapshot and cannot write."""
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def prepare_sqlite(engine: Engine, sleep: Callable[[float], None] = time.sleep) -> None:
    """Make the file, readable by its owner only, a write-ahead log database; several processes may do so at once."""
    assert engine.url.database is not None
    try:
        os.close(os.open(engine.url.database, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StoreUnavailable(f"cannot open the database {engine.url.database}: {error.strerror}") from error
    for attempt in range(200):
        try:
            with engine.connect() as connection:
                raw = connection.connection.dbapi_connection
                assert raw is not None
                raw.execute("PRAGMA journal_mode=WAL")
            return
        except (exc.OperationalError, sqlite3.OperationalError) as error:
            if "locked" not in str(error) or attempt == 199:
                raise StoreUnavailable(
                    f"cannot open the database {engine.url.database}: {_first_line(error)}"
                ) from error
            sleep(0.05)


@contextmanager
def translated() -> Iterator[None]:
    """Errors of SQLAlchemy and the drivers become the store's."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise meaning(error) from error
    except OverflowError as error:
        raise BadValue("a number is beyond the 64 bits that the database has for one") from error


def meaning(error: exc.SQLAlchemyError) -> StoreError:
    """What an error of SQLAlchemy means to the caller of the store."""
    if isinstance(error, exc.TimeoutError):
        return StoreUnavailable(f"no free database connection within {BUSY_SECONDS:g} s")
    if not isinstance(error, exc.DBAPIError):
        return StoreError(str(error))
    text = _first_line(error.orig)
    state = getattr(error.orig, "sqlstate", None) or ""
    if state in _RETRY_STATES or (isinstance(error.orig, sqlite3.OperationalError) and _is_busy(text)):
        return Contended(f"another transaction was in the way: {text}")
    if isinstance(error, exc.IntegrityError):
        gone = state == "23503" or "FOREIGN KEY" in text
        return NotFound(f"its owner does not exist (any more): {text}") if gone else Taken(text)
    if state in ("42P01", "42703") or "no such table" in text or "no such column" in text:
        return SchemaMismatch(f"the database's schema does not fit this program ({text}); run the migration")
    if isinstance(error, exc.DataError):
        return BadValue(text)
    if isinstance(error, exc.ProgrammingError):
        return StoreError(text)
    return StoreUnavailable(f"the database is not available: {text}")


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except exc.ArgumentError as error:
        raise StoreError("the database URL is not one: expected sqlite:///FILE or postgresql://...") from error
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise StoreError("SQLite in memory cannot be shared by processes: expected sqlite:///FILE")
        return parsed
    if parsed.get_backend_name() == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    raise StoreError(f"{parsed.get_backend_name()} is not supported: expected sqlite:///FILE or postgresql://...")


def _sqlite(url: URL) -> Engine:
    assert url.database is not None
    problem = check_local_filesystem(url.database)
    if problem:
        raise StoreError(problem)
    engine = create_engine(
        url, pool_size=8, max_overflow=32, pool_timeout=BUSY_SECONDS, connect_args={"timeout": BUSY_SECONDS}
    )

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the driver begins nothing by itself: _on_begin does
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        write = connection.get_execution_options().get(_WRITE)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _is_busy(text: str) -> bool:
    return "locked" in text or "busy" in text


def _first_line(error: object) -> str:
    return str(error).strip().split("\n", 1)[0]
