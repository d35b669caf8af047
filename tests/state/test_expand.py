"""Expand, then contract: each migration is run on a database with data in every table, and a process of the release before
goes on with the statements that it knows. What was written then is read now."""

from itertools import count, pairwise
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import BigInteger, Boolean, Double, create_engine, inspect, text
from sqlalchemy.engine import make_url

from controller.state import open_store, schema, tables
from controller.state.columns import Choice, Json
from controller.state.engine import for_writing, make_engine
from muster.clock import ManualClock
from muster.launch import LaunchTemplate
from muster.protocol import WorkerReport
from tests.state.makers import make_verdict

ONE_ROW = ("revision", "leader", "cluster", "forecasts")
RELEASES = sorted(path.name[1:5] for path in (Path(schema.__file__).parent / "migrations/versions").glob("v*.py"))
TEMPLATE = LaunchTemplate(framework="command", processes=(("true",),))
REPORT = WorkerReport(worker_uid="w", attempt="a", epoch=1, phase="Running", at=1.0)
STRUCTURED = ["{}", "[]", "[1, 2]", *(msgspec.json.encode(one).decode() for one in (TEMPLATE, REPORT, make_verdict()))]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'expand.db'}"
    server = request.getfixturevalue("postgres_server")
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("DROP DATABASE IF EXISTS expand WITH (FORCE)"))
        connection.execute(text("CREATE DATABASE expand"))
    engine.dispose()
    return make_url(server).set(database="expand").render_as_string(hide_password=False)


def sample(column, key, number):
    """A value that a release may have written. All words are `key`, so that every row points to its own."""
    if column.nullable:
        return None
    match column.type:
        case BigInteger():
            return number
        case Double():
            return 1.5
        case Boolean():
            return False
        case Choice():
            return str(next(iter(column.type.enum)))
        case Json():
            return next(one for one in STRUCTURED if decodes(column.type, one))
        case _:
            return key


def decodes(kind, value):
    try:
        kind.process_result_value(value, None)
    except msgspec.ValidationError:
        return False
    return True


def rows(connection, key, number):
    """One row of every table that there is, of the columns that it has, in the order of the foreign keys."""
    there = inspect(connection)
    for table in tables.metadata.sorted_tables:
        if there.has_table(table.name) and table.name not in ONE_ROW:
            known = {column["name"] for column in there.get_columns(table.name)}
            assert known <= set(table.c.keys()), f"{table.name} has lost {known - set(table.c.keys())}"
            yield table.name, {one.name: sample(one, key, number) for one in table.c if one.name in known}


def write(connection, found):
    for table, row in found:
        names = ", ".join(f'"{name}"' for name in row)
        values = ", ".join(f":{name}" for name in row)
        connection.execute(text(f'INSERT INTO "{table}" ({names}) VALUES ({values})'), row)


def use(connection, found):
    """Read and write again what is there, column by column, and delete it."""
    for table, row in found:
        here = " AND ".join(f'"{one.name}" = :{one.name}' for one in tables.metadata.tables[table].primary_key)
        names = ", ".join(f'"{name}"' for name in row)
        fields = ", ".join(f'"{name}" = :{name}' for name in row)
        assert connection.execute(text(f'UPDATE "{table}" SET {fields} WHERE {here}'), row).rowcount == 1
        assert dict(connection.execute(text(f'SELECT {names} FROM "{table}" WHERE {here}'), row).one()._mapping) == row
    for table, row in reversed(found):
        here = " AND ".join(f'"{one.name}" = :{one.name}' for one in tables.metadata.tables[table].primary_key)
        connection.execute(text(f'DELETE FROM "{table}" WHERE {here}'), row)


def test_every_release_leads_to_the_next_with_its_data_and_with_its_processes(url):
    engine, numbers = make_engine(url), count(1001)
    writing = for_writing(engine)
    for release, following in pairwise(RELEASES):
        schema.migrate(engine, release)
        with writing.begin() as connection:
            write(connection, list(rows(connection, f"of-{release}", next(numbers))))
            known = list(rows(connection, f"after-{release}", next(numbers)))
        schema.migrate(engine, following)
        with writing.begin() as connection:
            write(connection, known)
            use(connection, known)
    with engine.connect() as connection:
        assert schema.current(connection) == schema.HEAD
    engine.dispose()
    store = open_store(url, clock=ManualClock(), new_id=str)
    with store.read() as r:
        uids = {f"of-{release}" for release in RELEASES[:-1]}
        assert {job.uid for job in r.jobs()} == uids
        assert {worker.uid for worker in r.live_workers()} == uids
        assert {attempt.uid for attempt in r.live_attempts()} == uids
        assert {node.name for node in r.nodes()} == uids
        assert len(r.snapshot()[1]) > 4 * len(uids)
    with store.write() as w:
        w.patch_job(f"of-{RELEASES[0]}", labels={"team": "nlp"})
    store.close()
