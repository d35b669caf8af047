"""`python -m controller.backup save|restore FILE`: the whole database into one file, and back.

The database is MUSTER_DATABASE_URL's. SQLite is copied while it is used (VACUUM INTO); PostgreSQL by its own pg_dump,
pg_restore and psql, which must be on the PATH. What is restored has another history than what agents have seen, so it
is marked: the next API process gives it a new incarnation, and everything is on hold until an operator has decided
about what still runs (`muster admin rebuild-from-agents`).
"""

import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from sqlalchemy import text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from controller.state import StoreError
from controller.state.engine import make_engine, translated
from controller.state.tables import metadata
from muster.clock import SystemClock

MARK: Final = "UPDATE public.cluster SET incarnation = '', held_since = {now}, held_why = 'restored from a backup'"
MARK_WHERE_THERE: Final = """DO $all$ BEGIN
IF to_regclass('public.cluster') IS NOT NULL THEN EXECUTE $mark${mark}$mark$; END IF;
END $all$;
"""
DROP_FUNCTIONS: Final = """DO $all$ DECLARE one regprocedure; BEGIN
FOR one IN SELECT oid::regprocedure FROM pg_proc
  WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'muster\\_%'
LOOP EXECUTE 'DROP FUNCTION ' || one || ' CASCADE'; END LOOP;
END $all$;
"""
CUSTOM: Final = b"PGDMP"


class Refusal(Exception):
    """Nothing has been changed; the text says why."""


def save(url: str, file: Path) -> None:
    """A consistent copy, whoever writes meanwhile. Raises Refusal, StoreError, OSError."""
    if file.exists():
        raise Refusal(f"{file} exists already; a backup never replaces another one")
    if not file.parent.is_dir():
        raise Refusal(f"there is no folder {file.parent}")
    parsed, new = _parsed(url), file.with_name(file.name + ".part")
    new.unlink(missing_ok=True)
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        if parsed.get_backend_name() == "sqlite":
            _save_sqlite(_existing(parsed), new)
        else:
            _tool(parsed, "pg_dump", "--format=custom", f"--file={new}")
        with open(new, "rb") as written:
            os.fsync(written.fileno())
        os.replace(new, file)
    finally:
        new.unlink(missing_ok=True)


def restore(url: str, file: Path, now: float) -> None:
    """Raises Refusal when it is no backup or the database is in use; then the database is as it was."""
    if not file.is_file():
        raise Refusal(f"there is no file {file}")
    parsed = _parsed(url)
    with open(file, "rb") as backup:
        head = backup.read(16)
    if parsed.get_backend_name() == "sqlite":
        if not head.startswith(b"SQLite format 3"):
            raise Refusal(f"{file} is not a backup of an SQLite database")
        _restore_sqlite(parsed, file, now)
    else:
        if not head.startswith(CUSTOM):
            raise Refusal(f"{file} is not a backup of a PostgreSQL database (pg_dump --format=custom)")
        _restore_postgresql(url, parsed, file, now)


# -- SQLite ------------------------------------------------------------------------------------------


def _save_sqlite(database: Path, new: Path) -> None:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
        connection.execute("VACUUM INTO ?", (str(new),))


def _restore_sqlite(parsed: URL, file: Path, now: float) -> None:
    database = Path(parsed.database or "")
    new = database.with_name(database.name + ".part")
    new.unlink(missing_ok=True)
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with open(file, "rb") as source, open(new, "wb") as target:
            shutil.copyfileobj(source, target)
        _check_sqlite(new, file, now)
        if database.exists():
            _close_sqlite(database)
            os.replace(database, database.with_name(database.name + ".before-restore"))
        os.replace(new, database)
    finally:
        for each in ("", "-wal", "-shm", "-journal"):
            new.with_name(new.name + each).unlink(missing_ok=True)


def _check_sqlite(new: Path, file: Path, now: float) -> None:
    try:
        with closing(sqlite3.connect(new)) as connection, connection:
            (state,) = connection.execute("PRAGMA integrity_check").fetchone()
            there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if state != "ok" or "alembic_version" not in there:
                raise Refusal(f"{file} is not a whole database of Muster: {state}")
            if "cluster" in there:
                connection.execute(MARK.format(now=now).replace("public.", ""))
    except sqlite3.DatabaseError as error:
        raise Refusal(f"{file} is not a whole database: {error}") from None


def _close_sqlite(database: Path) -> None:
    """Everything is in the one file afterwards. Raises Refusal while anybody has it open."""
    try:
        with closing(sqlite3.connect(database, timeout=1)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.OperationalError:
        raise Refusal(f"{database} is in use: stop the API and the controllers first (`muster down`)") from None
    except sqlite3.DatabaseError:
        pass  # damaged: that is why it is restored


# -- PostgreSQL --------------------------------------------------------------------------------------


def _restore_postgresql(url: str, parsed: URL, file: Path, now: float) -> None:
    """What is there goes and the backup comes in one transaction."""
    with tempfile.TemporaryDirectory(prefix="muster-restore-") as folder:
        script = Path(folder) / "restore.sql"
        _tool(parsed, "pg_restore", "--no-owner", "--no-privileges", f"--file={script}", str(file), connect=False)
        _alone(url)
        names = ", ".join(f'"{table.name}"' for table in (*metadata.sorted_tables,))
        drop, mark = Path(folder) / "drop.sql", Path(folder) / "mark.sql"
        drop.write_text(f"DROP TABLE IF EXISTS {names}, alembic_version CASCADE;\n{DROP_FUNCTIONS}")
        mark.write_text(MARK_WHERE_THERE.format(mark=MARK.format(now=now)))
        words = [word for each in (drop, script, mark) for word in ("-f", str(each))]
        _tool(parsed, "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "--single-transaction", *words)


def _alone(url: str) -> None:
    """Raises Refusal while any process of Muster is connected."""
    engine = make_engine(url)
    others = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'muster' AND pid <> pg_backend_pid()"
    try:
        with translated(), engine.connect() as connection:
            count = connection.execute(text(f"{others} AND datname = current_database()")).scalar_one()
    finally:
        engine.dispose()
    if count:
        raise Refusal(f"the database is in use by {count} connections: stop the API and the controllers first")


def _tool(parsed: URL, name: str, *words: str, connect: bool = True) -> None:
    """One of PostgreSQL's own programs. Raises Refusal with what it said."""
    program = shutil.which(name)
    if program is None:
        raise Refusal(f"there is no program {name} on the PATH; it comes with PostgreSQL's client programs")
    target = parsed.set(drivername="postgresql", password=None).render_as_string()
    env = {**os.environ, **({"PGPASSWORD": str(parsed.password)} if parsed.password else {})}
    argv = [program, *([f"--dbname={target}"] if connect else []), *words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refusal(f"{name}: {done.stderr.strip()[-1000:] or f'exit code {done.returncode}'}")


# ----------------------------------------------------------------------------------------------------


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError:
        raise Refusal("MUSTER_DATABASE_URL is not a database URL") from None


def _existing(parsed: URL) -> Path:
    database = Path(parsed.database or "")
    if not database.is_file():
        raise Refusal(f"there is no database {database}")
    return database


def main(argv: Sequence[str] | None = None) -> int:
    asked = argparse.ArgumentParser(prog="controller.backup", description="The database into one file, and back.")
    asked.add_argument("verb", choices=("save", "restore"))
    asked.add_argument("file", type=Path)
    given = asked.parse_args(argv)
    url = os.environ.get("MUSTER_DATABASE_URL", "")
    try:
        if not url:
            raise Refusal("MUSTER_DATABASE_URL is not set")
        if given.verb == "save":
            save(url, given.file.absolute())
        else:
            restore(url, given.file.absolute(), SystemClock().now())
    except (Refusal, StoreError, OSError, sqlite3.Error) as error:
        with suppress(BrokenPipeError):
            sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
