"""The schema of the migrations is the schema of the tables, and starting at once is safe."""

import multiprocessing
import re
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from controller.state import SchemaMismatch, open_store, schema
from controller.state.engine import for_writing, make_engine
from controller.state.tables import metadata
from muster.clock import ManualClock


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database without any table."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    server = request.getfixturevalue("postgres_server")
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("DROP DATABASE IF EXISTS empty WITH (FORCE)"))
        connection.execute(text("CREATE DATABASE empty"))
    engine.dispose()
    return make_url(server).set(database="empty").render_as_string(hide_password=False)


def _open(url: str) -> Any:
    return open_store(url, clock=ManualClock(), new_id=str)


def test_migrating_gives_exactly_the_tables_and_twice_is_harmless(empty_url: str) -> None:
    store = _open(empty_url)
    store.migrate()
    store.migrate()
    with store.read() as r:
        assert r.revision() == 0
    store.close()
    engine = make_engine(empty_url)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata) == []
        assert schema.current(connection) == schema.HEAD
    engine.dispose()


def test_partial_indexes_are_the_same_in_the_migration_and_in_the_tables() -> None:
    """Alembic compares no WHERE of an index."""
    folder = Path(schema.__file__).parent / "migrations" / "versions"
    texts = [path.read_text() for path in sorted(folder.glob("v*.py"))]
    written = {where for text in texts for where in re.findall(r"\"(phase NOT IN \([^\"]+\))\"", text)}
    wheres = [
        index.dialect_options["postgresql"]["where"] for table in metadata.tables.values() for index in table.indexes
    ]
    assert written == {where.text for where in wheres if where is not None}


def test_the_program_knows_its_newest_migration() -> None:
    folder = Path(schema.__file__).parent / "migrations" / "versions"
    revisions = {re.search(r'^revision = "(\w+)"', path.read_text(), re.M) for path in folder.glob("v*.py")}
    assert max(found.group(1) for found in revisions if found) == schema.HEAD


def test_a_migration_that_is_cut_off_leaves_nothing(empty_url: str) -> None:
    store = _open(empty_url)
    with pytest.raises(ZeroDivisionError):
        _upgrade_and_fail(empty_url)
    engine = make_engine(empty_url)
    with engine.connect() as connection:
        assert schema.current(connection) is None
    engine.dispose()
    store.migrate()
    store.close()


def _upgrade_and_fail(url: str) -> None:
    engine = make_engine(url)
    try:
        with for_writing(engine).begin() as connection:
            schema.upgrade(connection)
            raise ZeroDivisionError
    finally:
        engine.dispose()


def test_a_newer_database_is_refused(empty_url: str) -> None:
    store = _open(empty_url)
    store.migrate()
    engine = make_engine(empty_url)
    with for_writing(engine).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(SchemaMismatch, match="schema 9999, which is newer than this program's"):
        store.migrate()
    store.close()


def test_a_database_that_was_never_migrated_says_so(empty_url: str) -> None:
    store = _open(empty_url)
    with pytest.raises(SchemaMismatch, match="run the migration"), store.read() as r:
        r.jobs()
    store.close()


def _migrate(url: str) -> None:
    store = _open(url)
    store.migrate()
    store.close()


@pytest.mark.processes
def test_processes_that_start_at_once_migrate_once(empty_url: str) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_migrate, args=(empty_url,)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    store = _open(empty_url)
    with store.read() as r:
        assert r.revision() == 0
    store.close()


OLD_JOB = {
    "annotations": "{}", "user": "ann", "generation": 1, "warnings": "[]", "phase": "Queued", "reason": "", "message": "",
    "suspend": False, "cancel": False, "restart_requested": False, "epoch": 0, "restarts": 0, "no_progress": 0,
    "last_failure": "", "preferred": "[]", "excluded": "[]", "created_at": 1.0, "queued_at": 1.0, "revision": 1,
    "queue": "default", "namespace": "research",
}  # fmt: skip


def _insert_as_before(url: str, name: str, directory: str, created_at: float = 1.0) -> None:
    """As a process of release 0004 writes a job."""
    spec = f'{{"command":["true"],"checkpoint":{{"directory":"{directory}"}}}}'
    row = {**OLD_JOB, "uid": name, "name": name, "spec": spec, "labels": f'{{"team":"nlp","job":"{name}"}}'}
    row["created_at"] = created_at
    columns = ", ".join(f'"{column}"' for column in row)
    engine = make_engine(url)
    with for_writing(engine).begin() as connection:
        connection.execute(text(f"INSERT INTO jobs ({columns}) VALUES ({', '.join(':' + c for c in row)})"), row)
    engine.dispose()


def test_a_database_of_the_release_before_goes_on_with_its_data_and_with_a_process_of_that_release(
    empty_url: str,
) -> None:
    engine = make_engine(empty_url)
    store = _open(empty_url)
    schema.migrate(engine, "0004")
    _insert_as_before(empty_url, "a", "/ckpt//a/")
    _insert_as_before(empty_url, "b", "/ckpt/a", created_at=2.0)
    schema.migrate(engine, "0005")  # killed before the next one, whose index was begun
    if engine.dialect.name == "postgresql":
        with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            connection.execute(text("CREATE INDEX ix_jobs_phase_namespace_name_uid ON jobs (phase)"))
            connection.execute(text("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_jobs_phase_namespace_name_uid'::regclass"))  # fmt: skip
    store.migrate()
    _insert_as_before(empty_url, "c", "/ckpt/c")
    with store.write() as w:
        w.patch_job("a", labels={"team": "vision"})
    with store.read() as r:
        assert [job.name for job in r.jobs(labels={"team": "nlp"})] == ["b", "c"]
        assert [job.name for job in r.jobs(labels={"team": "vision"})] == ["a"]
        assert [job.name for job in r.jobs_in_directories(["/ckpt/a"]).values()] == ["a"]
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata) == []
    engine.dispose()
    store.close()
