"""Only legal moves; unique rows are the mutual exclusion."""

import contextlib
from collections.abc import Callable

import pytest

from controller.state import Conflict, IllegalMove, NotFound, Store, Taken, Writer
from muster.protocol import RankExit
from muster.states import AttemptPhase, JobPhase, NodePhase, WorkerPhase
from tests.state.makers import make_attempt, make_job, make_node, make_worker


def _running(store: Store) -> None:
    with store.write() as w:
        w.insert_job(make_job())
        w.insert_attempt(make_attempt())
        w.insert_worker(make_worker(devices=(0, 1), ports=(20000, 20001)))


def test_a_record_reads_back_as_it_was_written_with_its_revision(store: Store) -> None:
    job = make_job(labels={"a": "b"}, preferred=("n1", "n2"), best_step=7, suspend=True, user="ü\u4e16")
    with store.write() as w:
        w.insert_job(job)
    with store.read() as r:
        found = r.job(job.uid)
    assert w.revision == 1
    assert found is not None
    assert found.revision == 1
    assert found.number > 0, "the database gives it"
    assert found == type(job)(
        **{f: getattr(job, f) for f in job.__struct_fields__} | {"revision": 1, "number": found.number}
    )


def test_a_move_sets_the_phase_and_the_fields_at_once(store: Store) -> None:
    _running(store)
    with store.write() as w:
        moved = w.move_worker(
            "worker-1", WorkerPhase.EXITED, exits=(RankExit(process=0, rank=0, signal=9),), problem="VANISHED"
        )
    assert (moved.phase, moved.exits[0].signal, moved.problem) == (WorkerPhase.EXITED, 9, "VANISHED")
    with store.read() as r:
        found = r.worker("worker-1")
    assert found is not None
    assert found.exits == moved.exits
    assert found.revision == w.revision


def test_an_illegal_move_names_both_phases_and_changes_nothing(store: Store) -> None:
    with store.write() as w:
        w.insert_job(make_job())
    with pytest.raises(IllegalMove, match="Job job-1 cannot go from Queued to Running"), store.write() as w:
        w.move_job("job-1", JobPhase.RUNNING)
    with store.read() as r:
        assert [job.phase for job in r.jobs()] == [JobPhase.QUEUED]
        assert r.revision() == 1


def test_a_transaction_goes_on_after_an_illegal_move_that_it_caught(store: Store) -> None:
    _running(store)
    with store.write() as w:
        with pytest.raises(IllegalMove):
            w.move_attempt("attempt-1", AttemptPhase.PLACED)
        w.move_attempt("attempt-1", AttemptPhase.LAUNCHING)
    with store.read() as r:
        assert [one.phase for one in r.live_attempts()] == [AttemptPhase.LAUNCHING]


@pytest.mark.parametrize("end", [JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED])
@pytest.mark.parametrize("target", list(JobPhase))
def test_a_finished_job_goes_nowhere(sqlite_store: Store, end: JobPhase, target: JobPhase) -> None:
    with sqlite_store.write() as w:
        w.insert_job(make_job(phase=end))
    with pytest.raises(IllegalMove), sqlite_store.write() as w:
        w.move_job("job-1", target)


def test_nothing_of_a_block_that_raises_is_written(store: Store) -> None:
    def insert_and_fail() -> None:
        with store.write() as w:
            w.insert_job(make_job())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        insert_and_fail()
    with store.read() as r:
        assert (r.jobs(), r.revision()) == ([], 0)


def test_one_live_job_a_name_and_the_name_is_free_after_the_end(store: Store) -> None:
    with store.write() as w:
        w.insert_job(make_job("job-1", name="x"))
    with pytest.raises(Taken, match="already a live job x in namespace default"), store.write() as w:
        w.insert_job(make_job("job-2", name="x"))
    with store.write() as w:
        w.insert_job(make_job("job-3", name="x", namespace="other"))
        w.move_job("job-1", JobPhase.CANCELLED)
        w.insert_job(make_job("job-4", name="x"))
    with store.read() as r:
        named = r.job_named("default", "x")
        assert named is not None
        assert named.uid == "job-4"


def test_the_newest_finished_job_answers_to_a_name_that_no_live_one_has(store: Store) -> None:
    with store.write() as w:
        w.insert_job(make_job("b", name="x", phase=JobPhase.FAILED, created_at=1.0))
        w.insert_job(make_job("a", name="x", phase=JobPhase.SUCCEEDED, created_at=2.0))
    with store.read() as r:
        named = r.job_named("default", "x")
        assert named is not None
        assert named.uid == "a"
        assert r.job_named("default", "y") is None


def test_one_live_attempt_a_scope(store: Store) -> None:
    _running(store)
    with pytest.raises(Taken, match="live attempt in scope gang"), store.write() as w:
        w.insert_attempt(make_attempt("attempt-2", number=2))
    with store.write() as w:
        w.insert_attempt(make_attempt("attempt-3", number=3, scope="replica-1"))
        w.move_attempt("attempt-1", AttemptPhase.ENDED)
        w.insert_attempt(make_attempt("attempt-2", number=2))


def test_what_belongs_to_nothing_is_refused(store: Store) -> None:
    def orphan(insert: Callable[[Writer], object]) -> None:
        with store.write() as w, contextlib.suppress(NotFound):
            insert(w)

    for insert in (lambda w: w.insert_attempt(make_attempt()), lambda w: w.insert_worker(make_worker())):
        with pytest.raises(NotFound, match="owner does not exist"):
            orphan(insert)


def test_an_epoch_is_used_once_in_a_job(store: Store) -> None:
    _running(store)
    with store.write() as w:
        w.move_attempt("attempt-1", AttemptPhase.ENDED)
    with pytest.raises(Taken, match="or epoch 1"), store.write() as w:
        w.insert_attempt(make_attempt("attempt-2", number=2, epoch=1))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"devices": (1, 2)}, "device 1 of node-1 belongs to worker worker-1"),
        ({"ports": (20001,)}, "port 20001 of host-1 belongs to worker worker-1"),
        ({"devices": (5, 5)}, "a device was asked for twice"),
        ({"index": 0}, "worker of this uid, or of this attempt, role and index, exists"),
    ],
)
def test_a_worker_that_asks_for_what_is_taken_is_told_by_whom(store: Store, fields: dict, message: str) -> None:
    _running(store)
    with pytest.raises(Taken, match=message), store.write() as w:
        w.insert_worker(make_worker("worker-2", **{"index": 1} | fields))
    with store.read() as r:
        assert r.worker("worker-2") is None
        assert set(r.devices_in_use()) == {("node-1", 0), ("node-1", 1)}


def test_what_was_taken_spoils_the_transaction_even_when_caught(store: Store) -> None:
    _running(store)
    with pytest.raises(Taken), store.write() as w, pytest.raises(Taken):
        w.insert_worker(make_worker("worker-2", index=1, devices=(0,)))
    with store.read() as r:
        assert [one.uid for one in r.workers("attempt-1")] == ["worker-1"]


def test_devices_and_ports_are_free_only_after_the_release(store: Store) -> None:
    _running(store)
    with pytest.raises(IllegalMove, match="from Assigned to released"), store.write() as w:
        w.release_worker("worker-1")
    with store.write() as w:
        w.move_worker("worker-1", WorkerPhase.EXITED)
    with store.read() as r:
        assert set(r.devices_in_use("node-1")) == {("node-1", 0), ("node-1", 1)}
        assert r.ports_in_use("host-1") == {("host-1", 20000), ("host-1", 20001)}
    for _ in range(2):
        with store.write() as w:
            w.release_worker("worker-1")
    with store.read() as r:
        assert (r.devices_in_use(), r.ports_in_use()) == ({}, set())


def test_ports_are_exchanged_at_once(store: Store) -> None:
    _running(store)
    with store.write() as w:
        assert w.replace_ports("worker-1", [20001, 30000]).ports == (20001, 30000)
    with store.read() as r:
        assert r.ports_in_use() == {("host-1", 20001), ("host-1", 30000)}
    with store.write() as w:
        w.insert_worker(make_worker("worker-2", index=1, ports=(20000,)))
    with pytest.raises(Taken, match="port 20000"), store.write() as w:
        w.replace_ports("worker-1", [20000])


def test_a_patch_at_a_revision_that_has_passed_is_a_conflict(store: Store) -> None:
    with store.write() as w:
        w.insert_job(make_job())
    with store.write() as w:
        w.patch_job("job-1", expect_revision=1, suspend=True)
    with pytest.raises(Conflict, match="at revision 2, not 1"), store.write() as w:
        w.patch_job("job-1", expect_revision=1, cancel=True)
    with pytest.raises(NotFound, match="no Job nobody"), store.write() as w:
        w.patch_job("nobody", expect_revision=1, cancel=True)


@pytest.mark.parametrize("field", ["uid", "revision", "phase", "nonsense"])
def test_fields_that_no_patch_may_write_are_refused(sqlite_store: Store, field: str) -> None:
    with sqlite_store.write() as w:
        w.insert_job(make_job())
        with pytest.raises(TypeError, match=field):
            w.patch_job("job-1", **{field: "x"})


def test_a_node_keeps_its_identity_and_moves_only_as_allowed(store: Store) -> None:
    with store.write() as w:
        w.put_node(make_node(uid="first", created_at=5.0))
        w.move_node("node-1", NodePhase.LOST)
    with pytest.raises(IllegalMove, match="from Lost to Unknown"), store.write() as w:
        w.put_node(make_node(phase=NodePhase.UNKNOWN))
    with store.write() as w:
        w.put_node(make_node(uid="second", created_at=9.0, boot_id="b2"))
    with store.read() as r:
        found = r.node("node-1")
    assert found is not None
    assert (found.uid, found.created_at, found.boot_id, found.phase) == ("first", 5.0, "b2", NodePhase.READY)


def test_moving_what_does_not_exist_says_so(store: Store) -> None:
    for move in (
        lambda w: w.move_job("x", JobPhase.FAILED),
        lambda w: w.move_attempt("x", AttemptPhase.ENDED),
        lambda w: w.move_worker("x", WorkerPhase.LOST),
        lambda w: w.move_node("x", NodePhase.LOST),
        lambda w: w.release_worker("x"),
        lambda w: w.delete_queue("x"),
        lambda w: w.delete_job("x"),
    ):
        with pytest.raises(NotFound, match="x"), store.write() as w:
            move(w)


def test_a_finished_job_is_deleted_with_all_that_is_its_own(store: Store) -> None:
    _running(store)
    with pytest.raises(IllegalMove, match="Queued to deleted"), store.write() as w:
        w.delete_job("job-1")
    with store.write() as w:
        w.move_job("job-1", JobPhase.CANCELLED)
    with pytest.raises(Conflict, match="not ended"), store.write() as w:
        w.delete_job("job-1")
    with store.write() as w:
        w.move_worker("worker-1", WorkerPhase.EXITED)
        w.move_attempt("attempt-1", AttemptPhase.ENDED)
        w.delete_job("job-1")
    with store.read() as r:
        assert (r.job("job-1"), r.attempts("job-1"), r.workers("attempt-1"), r.devices_in_use()) == (None, [], [], {})
        last = r.changes(w.revision - 1)[-1]
        assert (last.kind, last.uid, last.op, last.record) == ("Job", "job-1", "delete", None)
