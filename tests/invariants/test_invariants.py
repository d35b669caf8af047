"""Each promise holds through a job's life, and is seen to be broken when a row is bent by hand."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import text

from controller.invariants import INVARIANTS, SLACK, Observed, broken, observe
from controller.records import Claim
from controller.state.audit import LogSpan
from controller.state.types import OutboxItem
from muster.protocol import RankExit
from muster.states import AttemptPhase, JobPhase, NodePhase, RepairPhase, WorkerPhase
from tests.loop.world import World
from tests.makers import NOW, make_attempt, make_job, make_worker


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.store.close()


def audit(world):
    with world.store.read() as r:
        return broken(observe(r), world.clock.now())


def names(found):
    return {one.partition(":")[0] for one in found}


def test_every_promise_holds_at_every_step_of_a_job_that_fails_and_recovers(world):
    job = world.submit()
    for _ in range(12):
        assert audit(world) == []
        world.step()
    workers = world.run(job)
    assert audit(world) == []
    world.exit(workers[0], signal=9)
    for _ in range(12):
        assert audit(world) == []
        world.step()
    world.run(job, attempt=2)
    world.wish(job, cancel=True)
    world.until(world.phase_is(job, JobPhase.CANCELLED))
    assert audit(world) == []


def test_a_lost_node_breaks_no_promise(world):
    job = world.submit()
    workers = world.run(job)
    world.silent = {workers[0].node}
    for _ in range(150):
        assert audit(world) == []
        world.step()
    assert len(world.attempts(job)) > 1


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("DELETE FROM allocations WHERE rowid = (SELECT min(rowid) FROM allocations)", "workers_hold_what_they_were_given"),
        ("UPDATE attempts SET phase = 'Ended'", "devices_belong_to_live_attempts"),
        ("UPDATE attempts SET phase = 'Ended'", "ports_belong_to_live_attempts"),
        ("UPDATE attempts SET phase = 'Ended'", "no_worker_outlives_its_attempt"),
        ("UPDATE attempts SET phase = 'Ended'", "ended_attempts_have_reasons"),
        ("UPDATE attempts SET phase = 'Ended'", "jobs_that_run_have_an_attempt"),
        ("UPDATE jobs SET phase = 'Queued'", "jobs_that_run_have_an_attempt"),
        ("UPDATE jobs SET phase = 'Succeeded'", "finished_jobs_are_closed"),
        ("UPDATE jobs SET phase = 'Succeeded'", "live_attempts_are_their_jobs"),
        ("UPDATE jobs SET epoch = epoch + 1", "live_attempts_are_their_jobs"),
        ("UPDATE jobs SET attempt_uid = NULL", "live_attempts_are_their_jobs"),
        ("DELETE FROM allocations; DELETE FROM ports; DELETE FROM workers", "live_attempts_have_workers"),
        ("DELETE FROM changes WHERE revision = 3", "the_change_log_has_no_gap"),
        ("UPDATE revision SET value = value + 1", "the_change_log_has_no_gap"),
        ("UPDATE jobs SET revision = 10000", "no_record_is_ahead_of_the_log"),
    ],
)  # fmt: skip
def test_a_bent_row_is_found(world, sql, name):
    world.run(world.submit())
    with world.store._engine.begin() as connection:
        for statement in sql.split(";"):
            connection.execute(text(statement))
    assert name in names(audit(world))


JOB = make_job(phase=JobPhase.RUNNING, attempt_uid="job-train-a1", epoch=1, revision=1)
ATTEMPT = make_attempt(JOB, phase=AttemptPhase.RUNNING, revision=2)
WORKER = make_worker(ATTEMPT, devices=(0,), revision=3, phase=WorkerPhase.RUNNING, grace=5.0, fence=10.0)


def seen(job=JOB, attempts=(ATTEMPT,), workers=(WORKER,), **more):
    return Observed(
        revision=9,
        jobs={job.uid: job},
        attempts={one.uid: one for one in attempts},
        workers={one.uid: one for one in workers},
        devices={("n0", 0): WORKER.uid},
        **more,
    )


def test_a_sound_snapshot_breaks_nothing():
    assert broken(seen(), NOW) == []


def test_two_workers_with_one_device_are_found():
    other = replace(WORKER, uid="other", index=1)
    assert names(broken(seen(workers=(WORKER, other)), NOW)) == {"workers_hold_what_they_were_given"}


def test_two_live_attempts_of_one_scope_are_found():
    other = make_attempt(JOB, number=2, revision=4)
    found = names(broken(seen(attempts=(ATTEMPT, other)), NOW))
    assert {"one_live_attempt_per_scope", "live_attempts_are_their_jobs"} <= found


@pytest.mark.parametrize(
    ("attempt", "deadline"),
    [
        (replace(ATTEMPT, phase=AttemptPhase.LAUNCHING), 600.0),
        (replace(ATTEMPT, phase=AttemptPhase.STOPPING, stopping_at=NOW), 25.0),
    ],
)
def test_an_attempt_is_stuck_only_after_its_deadline_and_some_slack(attempt, deadline):
    state = seen(attempts=(attempt,))
    assert broken(state, NOW + deadline + SLACK - 1) == []
    assert names(broken(state, NOW + deadline + SLACK + 1)) == {"nothing_is_past_its_deadline"}


def test_a_worker_that_is_never_fenced_has_no_deadline():
    state = seen(
        attempts=(replace(ATTEMPT, phase=AttemptPhase.STOPPING, stopping_at=NOW),),
        workers=(replace(WORKER, fence=None),),
    )
    assert broken(state, NOW + 1e6) == []


def test_a_job_does_not_recover_for_ever():
    job = make_job(phase=JobPhase.RECOVERING, recovering_since=NOW, revision=1)
    state = Observed(revision=9, jobs={job.uid: job})
    assert broken(state, NOW + 600) == []
    assert names(broken(state, NOW + 601 + SLACK)) == {"nothing_is_past_its_deadline"}


def test_a_job_recovers_already_while_its_attempt_stops_but_never_while_it_runs():
    job = replace(JOB, phase=JobPhase.RECOVERING, recovering_since=NOW - 1e6)
    stopping = replace(ATTEMPT, phase=AttemptPhase.STOPPING, stopping_at=NOW)
    assert broken(seen(job, attempts=(stopping,)), NOW) == []
    assert names(broken(seen(job), NOW)) == {"jobs_that_run_have_an_attempt"}


def test_a_dead_letter_is_no_fault_but_one_that_does_not_say_why_is():
    good = OutboxItem(id="a", key="a", kind="webhook", payload={}, state="dead", tries=12, error="no", done_at=NOW)
    assert broken(Observed(dead=(good,)), NOW) == []
    assert names(broken(Observed(dead=(replace(good, error=""),)), NOW)) == {"the_outbox_is_in_order"}


def test_an_empty_cluster_keeps_every_promise():
    assert broken(Observed(log=LogSpan(0, None, None)), NOW) == []
    assert len({check.__name__ for check in INVARIANTS}) == len(INVARIANTS)


def test_the_audit_reads_the_same_on_both_databases(store):
    with store.write() as w:
        w.insert_job(make_job())
        w.add_event(namespace="default", kind="Job", object_uid="job-train", name="train", reason="R", message="m")
    with store.read() as r:
        state = observe(r)
    assert (state.log.entries, state.log.oldest, state.log.newest) == (2, 1, 2)
    assert broken(state, NOW) == []


def test_a_worker_that_succeeded_must_have_given_up_its_place():
    well = replace(WORKER, phase=WorkerPhase.EXITED, exits=(RankExit(process=0, code=0),))
    assert names(broken(seen(workers=(well,)), NOW)) == {"who_succeeded_is_charged_for_nothing"}
    released = seen(workers=(replace(well, released=True),))
    assert names(broken(released, NOW)) == {"who_succeeded_is_charged_for_nothing", "devices_belong_to_live_attempts"}
    counted = replace(released, devices={}, attempts={ATTEMPT.uid: replace(ATTEMPT, succeeded=1)})
    assert broken(counted, NOW) == []


def test_a_claim_that_nobody_will_make_true_is_found():
    job = replace(
        JOB, phase=JobPhase.QUEUED, attempt_uid=None, claim=Claim(nodes=("n0",), vacating=("gone",), made_at=NOW)
    )
    state = Observed(revision=9, jobs={job.uid: job})
    assert broken(state, NOW + SLACK) == []
    assert names(broken(state, NOW + SLACK + 1)) == {"claims_are_waited_for"}
    waiting = replace(job, phase=JobPhase.SUSPENDED)
    assert names(broken(replace(state, jobs={job.uid: waiting}), NOW)) == {"claims_are_waited_for"}


def test_a_worker_whose_node_has_been_silent_past_its_fence_is_found():
    silent = replace(seen(), renewed={WORKER.node: NOW})
    assert broken(silent, NOW + 10.0 + 2 * SLACK) == []
    assert names(broken(silent, NOW + 10.1 + 2 * SLACK)) == {"the_silent_are_lost_after_their_fence"}


@pytest.mark.parametrize(
    ("wish", "phase", "found"),
    [
        ({"cancel": True}, JobPhase.QUEUED, True),
        ({"cancel": True}, JobPhase.CANCELLED, False),
        ({"suspend": True}, JobPhase.RECOVERING, True),
        ({"suspend": True}, JobPhase.SUSPENDED, False),
        ({"restart_requested": True}, JobPhase.QUEUED, True),
        ({"reason": "ByUser"}, JobPhase.SUSPENDED, True),
        ({"reason": "DiskFull"}, JobPhase.SUSPENDED, False),
        ({}, JobPhase.QUEUED, False),
    ],
)
def test_a_wish_that_nobody_has_heard_is_found(wish, phase, found):
    job = replace(JOB, phase=phase, attempt_uid=None, wished_at=NOW, **wish)
    state = Observed(revision=9, jobs={job.uid: job})
    assert broken(state, NOW + SLACK) == []
    assert names(broken(state, NOW + SLACK + 1)) == ({"no_wish_waits_for_ever"} if found else set())


def test_a_wish_is_heard_when_the_attempt_is_being_stopped():
    job = replace(JOB, cancel=True, wished_at=NOW)
    assert names(broken(seen(job), NOW + SLACK + 1)) == {"no_wish_waits_for_ever"}
    stopping = replace(ATTEMPT, phase=AttemptPhase.STOPPING, stopping_at=NOW)
    assert broken(seen(job, attempts=(stopping,)), NOW + SLACK + 1) == []


def test_time_stands_still_while_everything_is_on_hold():
    job = replace(JOB, cancel=True, wished_at=NOW)
    assert broken(replace(seen(job), held_since=NOW), NOW + 10 * SLACK) == []


def test_every_phase_has_an_owner_and_a_deadline():
    """docs/architecture.md says so in a table."""
    text = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    rows = [
        line.split("|")[1:-1] for line in text.split("\n") if re.match(r"\| (Job|Attempt|Worker|Node|Repair) ", line)
    ]
    told = {
        (kind.strip(), phase.strip())
        for kind, phases, owner, until in rows
        for phase in phases.split(",")
        if owner.strip() and until.strip()
    }
    kinds = {"Job": JobPhase, "Attempt": AttemptPhase, "Worker": WorkerPhase, "Node": NodePhase, "Repair": RepairPhase}
    assert told == {(kind, str(phase)) for kind, phases in kinds.items() for phase in phases}
