"""What agents still run is put back into a database that has forgotten it, attempt by attempt, whole or not at all."""

import pytest
from msgspec.structs import replace

from controller.acts import rebuild
from controller.invariants import broken, observe
from controller.lifecycle import Next, advance
from controller.state import StrayRecord, Taken
from muster.launch import LaunchTemplate
from muster.protocol import Assignment, Origin, RankExit, WorkerReport
from muster.states import AttemptPhase, JobPhase, WorkerPhase
from tests.makers import NOW, make_job, make_node

SPEC = make_job("train").spec


def stray(index=0, *, attempt="a3", epoch=3, workers=2, phase="Running", job="train", **told):
    fields = {
        "worker_uid": f"{attempt}-w{index}",
        "attempt": attempt,
        "job": job,
        "job_uid": f"uid-of-{job}",
        "namespace": "default",
        "scope": "gang",
        "number": epoch,
        "epoch": epoch,
        "role": "worker",
        "index": index,
        "desired": "run",
        "revision": 1,
        "template": LaunchTemplate(framework="command", processes=(("train",),)),
        "devices": (index,),
        "ports": (20000 + index,),
        "origin": Origin(spec=SPEC, workers=workers, user="ada", restarts=2, rendezvous=f"{job}-{epoch}"),
    }
    assignment = Assignment(**fields | told)
    exits = (RankExit(process=0, code=0),) if phase == "Exited" else ()
    report = WorkerReport(
        worker_uid=assignment.worker_uid, attempt=attempt, epoch=epoch, phase=phase, at=NOW, exits=exits
    )
    return StrayRecord(
        worker_uid=assignment.worker_uid,
        node="n0",
        attempt_uid=attempt,
        epoch=epoch,
        report=report,
        assignment=assignment,
        seen_at=NOW,
    )


@pytest.fixture
def store(sqlite_store):
    sqlite_store.transact(lambda w: w.put_node(replace(make_node("n0"), held=True)))
    return sqlite_store


def restore(store, *found, incomplete=False):
    store.transact(lambda w: w.replace_strays("n0", found))
    with store.read() as r:
        (one, *_) = rebuild.strays(r.strays())
    return store.transact(lambda w: rebuild.restore(w, one, incomplete=incomplete, now=NOW))


def seen(store, job="uid-of-train"):
    with store.read() as r:
        record = r.job(job)
        attempt = r.attempts(job)[-1]
        assert broken(observe(r), NOW) == []
        return record, attempt, r.workers(attempt.uid), r.strays()


def test_a_gang_that_runs_is_put_back_as_it_is(store):
    assert restore(store, stray(0), stray(1)) == ""
    job, attempt, workers, left = seen(store)
    assert (job.phase, job.epoch, job.user, job.restarts, job.attempt_uid) == (JobPhase.RUNNING, 3, "ada", 2, "a3")
    assert (attempt.phase, attempt.number, attempt.rendezvous) == (AttemptPhase.RUNNING, 3, "train-3")
    assert [(one.devices, one.ports, one.phase) for one in workers] == [
        ((0,), (20000,), WorkerPhase.RUNNING),
        ((1,), (20001,), WorkerPhase.RUNNING),
    ]
    assert left == []
    store.transact(rebuild.release)
    with store.read() as r:
        assert not r.node("n0").held


def test_a_gang_of_which_a_worker_is_missing_waits_or_recovers_like_one_that_lost_a_node(store):
    assert restore(store, stray(0)) == "1 of 2 workers are not known yet"
    with store.read() as r:
        assert r.jobs() == []
    assert restore(store, stray(0), incomplete=True) == ""
    job, attempt, workers, _ = seen(store)
    assert [one.phase for one in workers] == [WorkerPhase.RUNNING, WorkerPhase.LOST]
    assert advance(job, attempt, workers, NOW).next is Next.STOP


def test_a_worker_that_ended_meanwhile_is_put_back_as_ended(store):
    assert restore(store, stray(0, phase="Exited"), stray(1)) == ""
    _, attempt, workers, _ = seen(store)
    assert [one.phase for one in workers] == [WorkerPhase.EXITED, WorkerPhase.RUNNING]
    assert attempt.phase is AttemptPhase.RUNNING


def test_what_the_database_believed_to_run_is_superseded_by_what_does(store):
    assert restore(store, stray(0, attempt="a1", epoch=1), stray(1, attempt="a1", epoch=1)) == ""
    assert restore(store, stray(0), stray(1)) == ""
    job, attempt, _, _ = seen(store)
    assert (job.epoch, attempt.uid) == (3, "a3")
    with store.read() as r:
        assert [one.reason for one in r.attempts(job.uid)] == ["Superseded", None]


def test_an_older_attempt_of_the_same_job_stays_on_hold(store):
    older = (stray(0, attempt="a1", epoch=1), stray(1, attempt="a1", epoch=1))
    assert restore(store, *older, stray(0), stray(1)) == "a newer attempt of the same job runs too"


def test_a_device_that_is_anothers_by_now_holds_up_the_attempt_whole(store):
    assert restore(store, stray(0, workers=1, job="other", attempt="b1", epoch=1)) == ""
    with pytest.raises(Taken, match="device 0 of n0 belongs to worker b1-w0"):
        restore(store, stray(0), stray(1))
    with store.read() as r:
        assert [job.name for job in r.jobs()] == ["other"]
        assert broken(observe(r), NOW) == []


def test_after_a_backup_no_epoch_is_used_again(store):
    store.transact(lambda w: w.insert_job(make_job("train", epoch=7)))
    store.transact(lambda w: w.put_cluster(replace(w.cluster(), held_since=NOW, held_why="x"), before=""))
    store.transact(rebuild.release)
    with store.read() as r:
        (job,) = r.jobs()
        assert job.epoch_floor == 7 + rebuild.EPOCHS_LOST
        assert r.cluster().held_since is None
