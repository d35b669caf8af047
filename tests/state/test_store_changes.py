"""Whoever polls the change log sees every commit once, in one order."""

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from controller.state import Store, TooOld, open_store
from controller.state.retention import CHANGE_BYTES, Keep, Retention
from muster.clock import ManualClock, SystemClock
from muster.states import AttemptPhase, JobPhase, WorkerPhase
from tests.state.makers import make_attempt, make_incident, make_job, make_node, make_worker


def test_every_kind_is_logged_with_its_record(store: Store) -> None:
    with store.write() as w:
        w.put_node(make_node())
        w.insert_job(make_job())
        w.insert_attempt(make_attempt())
        w.insert_worker(make_worker())
        w.insert_incident(make_incident())
        event = w.add_event(
            namespace="default", kind="Job", object_uid="job-1", name="x", reason="Submitted", message="by ada"
        )
    with store.read() as r:
        changes = r.changes(0)
        assert [(c.revision, c.kind, c.name, c.op) for c in changes] == [
            (1, "Node", "node-1", "put"),
            (2, "Job", "name-of-job-1", "put"),
            (3, "Attempt", "name-of-job-1", "put"),
            (4, "Worker", "worker-0", "put"),
            (5, "Incident", "name-of-job-1", "put"),
            (6, "Event", "x", "put"),
        ]
        assert [c.record for c in changes][:2] == [r.node("node-1"), r.job("job-1")]
        assert changes[5].record == r.events()[0]
        assert {c.uid: c.record.revision for c in changes if c.record} == {c.uid: c.revision for c in changes}
    assert w.revision == 6
    assert (w.revision_of("job-1"), w.revision_of(event.uid), w.revision_of("other")) == (2, 6, None)


def test_what_is_written_twice_in_a_transaction_is_logged_once_at_its_last_touch(store: Store) -> None:
    with store.write() as w:
        w.insert_job(make_job("a"))
        w.insert_job(make_job("b"))
        w.patch_job("a", suspend=True)
    with store.read() as r:
        assert [(c.revision, c.uid) for c in r.changes(0)] == [(1, "b"), (2, "a")]


def test_pages_and_kinds_of_the_log(store: Store) -> None:
    with store.write() as w:
        for number in range(3):
            w.insert_job(make_job(f"job-{number}"))
            w.put_node(make_node(f"node-{number}"))
    with store.read() as r:
        assert [c.revision for c in r.changes(0, limit=4)] == [1, 2, 3, 4]
        assert [c.revision for c in r.changes(4, limit=4)] == [5, 6]
        assert r.changes(6) == []
        assert [c.uid for c in r.changes(1, kinds=["Job"])] == ["job-1", "job-2"]


def test_a_change_of_what_is_gone_has_no_record(store: Store) -> None:
    with store.write() as w:
        w.insert_job(make_job(phase=JobPhase.FAILED))
    with store.write() as w:
        w.delete_job("job-1")
    with store.read() as r:
        assert [(c.op, c.record) for c in r.changes(0)] == [("put", None), ("delete", None)]


def test_a_reader_behind_the_cut_or_ahead_of_the_log_is_told(store: Store) -> None:
    for number in range(5):
        with store.write() as w:
            w.insert_job(make_job(f"job-{number}"))
    store.prune(Retention(changes=Keep(7, 3 * CHANGE_BYTES)))
    with store.read() as r:
        assert r.oldest_revision() == 3
        assert [c.revision for c in r.changes(2)] == [3, 4, 5]
        with pytest.raises(TooOld, match="after revision 1 are not available: the log holds 3 to 5"):
            r.changes(1)
        with pytest.raises(TooOld):
            r.changes(1, kinds=["Node"])
        with pytest.raises(TooOld):
            r.changes(6)


def test_lease_renewals_grow_and_leave_no_trace_in_the_log(store: Store, clock: ManualClock) -> None:
    for boot in ("b1", "b1", "b2"):
        clock.advance(1)
        with store.write() as w:
            w.renew_leases([("n2", "x"), ("n1", boot)])
        assert w.revision == 0
    with store.read() as r:
        assert [(one.node, one.renewals, one.boot_id) for one in r.leases()] == [("n1", 3, "b2"), ("n2", 3, "x")]
        assert r.leases()[0].renewed_at == clock.now()
        assert (r.revision(), r.oldest_revision(), r.changes(0)) == (0, 1, [])


def test_a_snapshot_holds_what_lives_and_all_workers_of_live_attempts(store: Store) -> None:
    with store.write() as w:
        w.put_node(make_node())
        w.insert_job(make_job("job-1"))
        w.insert_job(make_job("job-2", phase=JobPhase.SUCCEEDED))
        w.insert_job(make_job("job-3", phase=JobPhase.FAILED))
        w.insert_attempt(make_attempt("attempt-1", phase=AttemptPhase.ENDED))
        w.insert_attempt(make_attempt("attempt-2", number=2))
        w.insert_attempt(make_attempt("attempt-3", job="job-3"))
        w.insert_worker(make_worker("old", attempt="attempt-1", phase=WorkerPhase.LOST))
        w.insert_worker(make_worker("done", attempt="attempt-2", phase=WorkerPhase.EXITED))
        w.insert_worker(make_worker("alive", attempt="attempt-2", index=1))
    with store.read() as r:
        revision, records = r.snapshot()
    assert revision == w.revision == 10
    uids = ["uid-of-node-1", "job-1", "job-3", "attempt-2", "attempt-3", "alive", "done"]
    assert [record.uid for record in records] == uids


def test_a_reader_keeps_its_snapshot_while_others_write(store: Store) -> None:
    with store.read() as r:
        assert r.revision() == 0
        with store.write() as w:
            w.insert_job(make_job())
        assert (r.revision(), r.jobs(), r.changes(0)) == (0, [], [])
    with store.read() as r:
        assert r.revision() == 1


WRITERS, EACH = 3, 25


def _write_many(url: str, writer: int) -> None:
    numbers = iter(range(10_000))
    store = open_store(url, clock=SystemClock(), new_id=lambda: f"{writer}-{next(numbers)}")
    for number in range(EACH):

        def fill(w: Any, number: int = number) -> None:
            w.insert_job(make_job(f"{writer}-{number}", name=f"job-{writer}-{number}"))
            w.put_node(make_node(f"shared-{number % 3}", boot_id=str(writer)))
            w.add_event(namespace="d", kind="Job", object_uid="x", name="x", reason="r", message="m")

        store.transact(fill)
    store.close()


@contextmanager
def _threads(url: str) -> Iterator[Callable[[], bool]]:
    threads = [threading.Thread(target=_write_many, args=(url, number)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    yield lambda: any(thread.is_alive() for thread in threads)
    for thread in threads:
        thread.join()


@contextmanager
def _processes(url: str) -> Iterator[Callable[[], bool]]:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_write_many, args=(url, number)) for number in range(WRITERS)]
    for process in processes:
        process.start()
    yield lambda: any(process.is_alive() for process in processes)
    for process in processes:
        process.join()
        assert process.exitcode == 0


@pytest.mark.parametrize("writers", [_threads, pytest.param(_processes, marks=pytest.mark.processes)])
def test_a_poller_misses_nothing_while_many_write_at_once(database_url: str, writers: Any) -> None:
    """Nodes come before jobs in some transactions' locks, so writers do get in each other's way."""
    reader = open_store(database_url, clock=SystemClock(), new_id=str)
    for number in range(3):
        with reader.write() as w:
            w.put_node(make_node(f"shared-{number}"))
    seen: list[tuple[int, str, str]] = []
    deadline = time.monotonic() + 120
    with writers(database_url) as running:
        more = True
        while more:
            more = running()
            with reader.read() as r:
                changes = r.changes(seen[-1][0] if seen else 0, limit=17)
            more = more or bool(changes)
            seen += [(c.revision, c.kind, c.uid) for c in changes]
            assert all(c.record is not None and c.record.revision >= c.revision for c in changes)
            assert time.monotonic() < deadline
    reader.close()
    assert [revision for revision, _, _ in seen] == list(range(1, len(seen) + 1))
    jobs = [uid for _, kind, uid in seen if kind == "Job"]
    assert sorted(jobs) == sorted(f"{writer}-{number}" for writer in range(WRITERS) for number in range(EACH))
    assert len(seen) == 3 + 3 * WRITERS * EACH
