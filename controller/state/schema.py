"""Bring a database to the schema of this program. Safe when several processes start at once: one migrates, the
others wait; killed half-way, nothing has happened."""

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, inspect, text

from controller.state.engine import for_writing, translated
from controller.state.errors import SchemaMismatch

HEAD: Final = "0004"
"""The newest migration. A test holds it against the folder."""

_LOCK: Final = 0x6D7573746572  # PostgreSQL advisory lock: "muster"


def migrate(engine: Engine) -> None:
    """Raises SchemaMismatch when the database is newer than this program, StoreUnavailable when it cannot be reached."""
    with translated():
        with engine.connect() as connection:
            if current(connection) == HEAD:
                return
        with for_writing(engine).begin() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SET LOCAL lock_timeout = '120s'"))
                connection.execute(text("SET LOCAL statement_timeout = 0"))
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            upgrade(connection)


def current(connection: Connection) -> str | None:
    """The migration that the database is at; None when it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def upgrade(connection: Connection, target: str = HEAD) -> None:
    """Run what is missing inside the caller's transaction."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    found = current(connection)
    if found is not None and found not in known:
        raise SchemaMismatch(
            f"the database has schema {found}, which is newer than this program's {HEAD}; upgrade Muster"
        )
    if found != target:
        command.upgrade(config, target)
