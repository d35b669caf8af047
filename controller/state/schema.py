"""Bring a database to the schema of this program. Safe when several processes start at once: one migrates, the others
wait. Each migration is a transaction of its own, so one that is killed half-way has not happened.

A migration may have a function `online(connection)`, for what must not hold up who writes (indexes of large tables). It
runs before the migration's transaction, on PostgreSQL outside of any, and must be repeatable.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, Engine, inspect, text

from controller.state.engine import for_writing, translated
from controller.state.errors import SchemaMismatch, StoreUnavailable

if TYPE_CHECKING:
    from alembic.config import Config

HEAD: Final = "0022"
"""The newest migration. A test holds it against the folder."""

_LOCK: Final = 0x6D7573746572  # PostgreSQL advisory lock: "muster"
_PATIENCE: Final = 600.0
_PAUSE: Final = 0.1


def migrate(engine: Engine, target: str = HEAD, sleep: Callable[[float], None] = time.sleep) -> None:
    """Raises SchemaMismatch when the database is newer than this program, StoreUnavailable when it cannot be reached."""
    with translated():
        with engine.connect() as connection:
            if current(connection) == target:
                return
        if engine.dialect.name == "postgresql":
            _migrate_postgresql(engine, target, sleep)
        else:
            with for_writing(engine).begin() as connection:
                upgrade(connection, target)


def current(connection: Connection) -> str | None:
    """The migration that the database is at; None when it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def upgrade(connection: Connection, target: str = HEAD) -> None:
    """Run what is missing inside the caller's transaction."""
    config = _config(connection)
    for revision, online in _missing(config, current(connection), target):
        if online is not None:
            online(connection)
        _step(config, revision)


def _migrate_postgresql(engine: Engine, target: str, sleep: Callable[[float], None]) -> None:
    with _alone(engine, sleep) as free:
        for revision, online in _missing(_config(free), current(free), target):
            if online is not None:
                online(free)
            with for_writing(engine).begin() as connection:
                connection.execute(text("SET LOCAL lock_timeout = '120s'"))
                connection.execute(text("SET LOCAL statement_timeout = 0"))
                _step(_config(connection), revision)


@contextmanager
def _alone(engine: Engine, sleep: Callable[[float], None]) -> Iterator[Connection]:
    """A connection outside of any transaction that holds the lock of all migrations. Who waits for it asks again and
    again: a query that waits would have a snapshot, and the making of an index waits for all snapshots."""
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as free:
        deadline = time.monotonic() + _PATIENCE
        while not free.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _LOCK}).scalar():
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"another process has been migrating the database for {_PATIENCE:g} s")
            sleep(_PAUSE)
        try:
            free.execute(text("SET statement_timeout = 0"))
            free.execute(text("SET lock_timeout = '300s'"))
            yield free
        finally:
            free.invalidate()  # its end frees the lock, whatever has happened to it


def _missing(config: "Config", found: str | None, target: str) -> list[tuple[str, Callable[[Connection], None] | None]]:
    """The migrations to run, oldest first, each with its `online`."""
    from alembic.script import ScriptDirectory

    scripts = sorted(ScriptDirectory.from_config(config).walk_revisions(), key=lambda script: script.revision)
    if found is not None and found not in {script.revision for script in scripts}:
        raise SchemaMismatch(
            f"the database has schema {found}, which is newer than this program's {HEAD}; upgrade Muster"
        )
    return [
        (script.revision, getattr(script.module, "online", None))
        for script in scripts
        if (found or "") < script.revision <= target
    ]


def _step(config: "Config", revision: str) -> None:
    from alembic import command

    command.upgrade(config, revision)


def _config(connection: Connection) -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
