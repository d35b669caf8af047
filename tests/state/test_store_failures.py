"""Lost connections, busy databases, killed processes: a clear error, and nothing lost."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from controller.state import (
    BadValue,
    Contended,
    SchemaMismatch,
    Store,
    StoreError,
    StoreUnavailable,
    Taken,
    Writer,
    open_store,
)
from controller.state.store import TRIES
from muster.clock import ManualClock
from muster.states import JobPhase
from tests.state.makers import make_job


@pytest.fixture
def postgres(postgres_url: str, clock: ManualClock, new_id: Callable[[], str]) -> Store:
    return open_store(postgres_url, clock=clock, new_id=new_id, sleep=clock.advance)


def _terminate_all(url: str) -> None:
    """What a restart of the server does to its clients."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'muster'")
        )
    engine.dispose()


def test_idle_connections_that_were_cut_are_replaced_unnoticed(postgres: Store, postgres_url: str) -> None:
    with postgres.read() as r:
        assert r.jobs() == []
    _terminate_all(postgres_url)
    with postgres.write() as w:
        w.insert_job(make_job())
    _terminate_all(postgres_url)
    with postgres.read() as r:
        assert len(r.jobs()) == 1
    postgres.close()


def test_a_connection_cut_inside_a_transaction_is_an_error_and_nothing_is_written(
    postgres: Store, postgres_url: str
) -> None:
    def cut_inside() -> None:
        with postgres.write() as w:
            w.insert_job(make_job())
            _terminate_all(postgres_url)
            w.patch_job("job-1", suspend=True)

    with pytest.raises(StoreUnavailable) as caught:
        cut_inside()
    assert not caught.value.outcome_unknown
    with postgres.read() as r:
        assert r.jobs() == []
    postgres.close()


def test_a_connection_cut_before_the_commit_says_when_its_outcome_is_unknown(
    postgres: Store, postgres_url: str
) -> None:
    def cut_at_commit() -> None:
        with postgres.write() as w:
            w.renew_leases([("n", "b")])
            _terminate_all(postgres_url)

    with pytest.raises(StoreUnavailable, match="whether the commit happened is unknown") as caught:
        cut_at_commit()
    assert caught.value.outcome_unknown
    postgres.close()


@pytest.mark.parametrize("url", ["postgresql://x@127.0.0.1:1/x", "postgresql+psycopg://x@/x?host=/nowhere"])
def test_no_server_is_a_clear_error(url: str, clock: ManualClock) -> None:
    store = open_store(url, clock=clock, new_id=str)
    with pytest.raises(StoreUnavailable, match="database is not available"), store.read() as r:
        r.jobs()
    with pytest.raises(StoreUnavailable), store.write():
        pass
    with pytest.raises(StoreUnavailable):
        store.migrate()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://x/y", "mysql is not supported"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("what?", "not one: expected sqlite:///FILE"),
        ("sqlite:////nowhere/at/all/muster.db", "cannot open the database /nowhere/at/all/muster.db: No such file"),
    ],
)
def test_an_url_that_cannot_work_is_refused(url: str, message: str, clock: ManualClock) -> None:
    with pytest.raises(StoreError, match=message):
        open_store(url, clock=clock, new_id=str)


def test_a_password_is_in_no_error(clock: ManualClock) -> None:
    store = open_store("postgresql://ada:hunter2@127.0.0.1:1/x", clock=clock, new_id=str)
    with pytest.raises(StoreUnavailable) as caught, store.read() as r:
        r.jobs()
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path, clock: ManualClock) -> None:
    (tmp_path / "x.db").write_text("this is a diary, not a database" * 100)
    with pytest.raises(StoreUnavailable, match="file is not a database"):
        open_store(f"sqlite:///{tmp_path / 'x.db'}", clock=clock, new_id=str)


def test_the_database_file_is_its_owners_alone(tmp_path: Path, clock: ManualClock) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'x.db'}", clock=clock, new_id=str)
    store.migrate()
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("x.db*")} == {0o600}
    store.close()


def test_transact_tries_again_with_growing_pauses_and_gives_up(sqlite_url: str, clock: ManualClock) -> None:
    pauses: list[float] = []
    store = open_store(sqlite_url, clock=clock, new_id=str, sleep=pauses.append)
    calls = 0

    def twice_in_the_way(w: Writer) -> int:
        nonlocal calls
        calls += 1
        w.insert_job(make_job())
        if calls < 3:
            raise Contended("deadlock")
        return calls

    assert store.transact(twice_in_the_way) == 3
    assert pauses == [0.01, 0.02]
    pauses.clear()

    def always_in_the_way(w: Writer) -> None:
        raise Contended("deadlock")

    with pytest.raises(Contended):
        store.transact(always_in_the_way)
    assert len(pauses) == TRIES - 1
    assert sum(pauses) < 2.0
    with store.read() as r:
        assert (len(r.jobs()), r.revision()) == (1, 1)
    store.close()


def test_transact_does_not_repeat_what_was_refused(store: Store) -> None:
    calls: list[int] = []

    def take(w: Writer) -> None:
        calls.append(1)
        w.insert_job(make_job())

    store.transact(take)
    with pytest.raises(Taken):
        store.transact(take)
    assert len(calls) == 2


def test_a_deadlock_is_resolved_and_both_transactions_happen(postgres: Store) -> None:
    with postgres.write() as w:
        w.insert_job(make_job("a"))
        w.insert_job(make_job("b"))
    barrier = threading.Barrier(2)
    tries: list[str] = []

    def touch(first: str, second: str) -> None:
        def both(w: Writer) -> None:
            tries.append(first)
            w.patch_job(first, message=f"from {first}")
            if len(tries) <= 2:
                barrier.wait(30)
            w.patch_job(second, message=f"from {first}")

        postgres.transact(both)

    threads = [threading.Thread(target=touch, args=pair) for pair in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tries) >= 3
    with postgres.read() as r:
        assert r.revision() == 6
        assert len({job.message for job in r.jobs()}) == 1
    postgres.close()


def test_read_decide_patch_is_safe_against_others(store: Store) -> None:
    with store.write() as w:
        w.insert_job(make_job(restarts=0))

    def one_more(w: Writer) -> None:
        job = w.job("job-1")
        assert job is not None
        w.patch_job("job-1", restarts=job.restarts + 1)

    def many() -> None:
        for _ in range(10):
            store.transact(one_more)

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.read() as r:
        job = r.job("job-1")
    assert job is not None
    assert job.restarts == 40


def test_a_write_inside_a_write_is_a_mistake_that_is_told_at_once(store: Store) -> None:
    def nested() -> None:
        with store.write(), store.write():
            pass

    with pytest.raises(RuntimeError, match="inside another"):
        nested()
    with store.write() as w:
        w.insert_job(make_job())


def test_a_number_that_no_column_holds_is_refused(store: Store) -> None:
    with pytest.raises(BadValue), store.write() as w:
        w.insert_job(make_job(best_step=2**63))
    with store.read() as r:
        assert r.jobs() == []


def test_a_full_disk_is_told_and_the_store_works_again_when_there_is_room(sqlite_url: str, clock: ManualClock) -> None:
    store = open_store(sqlite_url, clock=clock, new_id=str)
    with store.read() as r:
        pages = r._connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    with store._engine.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")
        big = make_job(annotations={"x": "y" * 100_000})
    with pytest.raises(StoreUnavailable, match="full"), store.write() as w:
        w.insert_job(big)
    store.close()
    with store.write() as w:
        w.insert_job(big)
    with store.read() as r:
        assert [job.uid for job in r.jobs()] == ["job-1"]
    store.close()


SUBMIT_FOREVER = """
import itertools, sys
from controller.state import open_store
from muster.clock import SystemClock
from tests.state.makers import make_job
numbers = itertools.count()
store = open_store(sys.argv[1], clock=SystemClock(), new_id=lambda: f"event-{next(numbers)}")
for number in itertools.count():
    with store.write() as w:
        w.insert_job(make_job(f"job-{number}"))
        w.move_job(f"job-{number}", "Failed", reason="R")
        w.add_event(namespace="d", kind="Job", object_uid="x", name="x", reason="r", message="m")
    print(number, w.revision, flush=True)
"""


@pytest.mark.processes
def test_what_was_acknowledged_survives_kill_9_and_nothing_is_half_done(database_url: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", SUBMIT_FOREVER, database_url], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(30):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    acknowledged = [line for line in process.stdout.read().splitlines() if line.count(" ") == 1]
    process.wait()
    last = int(acknowledged[-1].split()[0]) if acknowledged else 29
    store = open_store(database_url, clock=ManualClock(), new_id=str)
    with store.read() as r:
        jobs = r.jobs()
        assert len(jobs) in (last + 1, last + 2)
        assert {job.phase for job in jobs} == {JobPhase.FAILED}
        assert r.revision() == 2 * len(jobs)
        assert [change.revision for change in r.changes(0, limit=10**6)] == list(range(1, 2 * len(jobs) + 1))
    with store.write() as w:
        w.insert_job(make_job("after"))
    store.close()


def test_a_column_that_is_missing_says_that_the_schema_does_not_fit(sqlite_url: str, clock: ManualClock) -> None:
    store = open_store(sqlite_url, clock=clock, new_id=str)
    with store._engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE queues DROP COLUMN labels")
    with pytest.raises(SchemaMismatch, match="labels"), store.read() as r:
        r.queues()
    store.close()
