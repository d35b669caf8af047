"""A job's life through the loop: real store, real planner, real verdicts; only the nodes are played."""

import pytest

from controller.state.errors import LeadershipLost
from muster.reasons import End, Waiting
from muster.states import AttemptPhase, JobPhase, NodePhase, WorkerPhase
from tests.loop.world import LEAVES, World


def nodes_of(world, attempt):
    return [worker.node for worker in world.workers(attempt)]


def test_a_gang_is_placed_in_one_leaf_runs_and_succeeds(world):
    job = world.submit()
    workers = world.run(job)
    assert {LEAVES[worker.node] for worker in workers} in ({"b0-l0"}, {"b0-l1"})
    assert [worker.index for worker in workers] == [0, 1]
    for worker in workers:
        world.exit(worker, code=0)
    world.until(world.phase_is(job, JobPhase.SUCCEEDED))
    (attempt,) = world.attempts(job)
    assert (attempt.phase, attempt.reason) == (AttemptPhase.ENDED, End.SUCCEEDED)
    with world.store.read() as r:
        assert r.ports_in_use() == set()


def test_no_rank_is_told_to_run_before_every_worker_is_ready(world):
    world.deaf = {"n1", "n3"}
    job = world.submit()
    for _ in range(20):
        world.step()
    assert {worker.desired for worker in world.workers(world.attempts(job)[0])} == {"prepare"}
    world.deaf = set()
    world.run(job)


@pytest.mark.parametrize("code", [0, 1])
def test_a_gang_too_quick_to_be_seen_running_has_run_all_the_same(world, code):
    job = world.submit(workers=2)
    world.until(lambda: world.attempts(job) and {one.desired for one in world.live_workers(job)} == {"run"})
    for worker in world.live_workers(job):
        world.exit(worker, code=code)
    world.until(lambda: world.attempts(job)[0].ended_at is not None)
    seen = world.job(job)
    assert seen.started_at is not None
    assert seen.started_at <= world.attempts(job)[0].ended_at


def test_a_killed_rank_restarts_the_gang_on_the_same_nodes_with_everything_fresh(world):
    job = world.submit(checkpoint={"directory": "/c"})
    workers = world.run(job)
    first = world.attempts(job)[0]
    world.progress(first, 40)
    world.checkpoint(first, ("/c/step-30", 30, True), ("/c/step-40", 40, False))
    world.exit(workers[1], signal=9)
    again = world.run(job, attempt=2)
    first, second = world.attempts(job)
    assert first.reason is End.RANK_FAILED
    assert first.verdict is not None
    assert first.verdict.action == "restart"
    assert nodes_of(world, first) == nodes_of(world, second)
    assert second.epoch == first.epoch + 1
    assert second.rendezvous != first.rendezvous
    assert not {port for w in workers for port in w.ports} & {port for w in again for port in w.ports}
    assert second.resume is not None
    assert (second.resume.path, second.resume.step, second.redone_steps) == ("/c/step-30", 30, 10)


def test_the_whole_gang_is_confirmed_dead_before_the_next_attempt_is_placed(world):
    job = world.submit()
    workers = world.run(job)
    world.deaf = {workers[0].node}
    world.exit(workers[1], signal=9)
    for _ in range(30):
        world.step()
        assert len(world.attempts(job)) == 1
    assert world.job(job).phase is JobPhase.RECOVERING
    assert world.workers(world.attempts(job)[0])[0].desired == "stop"
    world.deaf = set()
    world.run(job, attempt=2)


def test_a_lost_node_is_unknown_first_then_lost_after_the_fence_and_the_gang_moves(world):
    job = world.submit()
    workers = world.run(job)
    gone = workers[0].node
    began = world.clock.now()
    world.silent = {gone}

    def phase():
        with world.store.read() as r:
            return r.node(gone).phase

    world.until(lambda: phase() is NodePhase.UNKNOWN)
    assert 2.0 <= world.clock.now() - began < 3.0
    assert len(world.attempts(job)) == 1
    assert world.job(job).phase is JobPhase.RUNNING
    world.until(lambda: phase() is NodePhase.LOST)
    assert world.clock.now() - began >= 6.0
    again = world.run(job, attempt=2)
    first = world.attempts(job)[0]
    assert first.reason is End.NODE_LOST
    assert first.verdict.culprit_nodes == (gone,)
    assert gone not in {worker.node for worker in again}
    assert len({LEAVES[worker.node] for worker in again}) == 1


def test_a_node_that_comes_back_within_the_fence_restarts_nothing(world):
    job = world.submit()
    workers = world.run(job)
    world.silent = {workers[0].node}
    for _ in range(35):
        world.step()
    world.silent = set()
    for _ in range(30):
        world.step()
    assert world.job(job).phase is JobPhase.RUNNING
    assert len(world.attempts(job)) == 1
    with world.store.read() as r:
        assert {node.phase for node in r.nodes()} == {NodePhase.READY}


def test_a_recognised_user_error_is_never_restarted(world):
    job = world.submit()
    workers = world.run(job)
    log = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    import torhc\nModuleNotFoundError: No module named 'torhc'\n"
    for worker in workers:
        world.exit(worker, code=1, log=log)
    world.until(world.phase_is(job, JobPhase.FAILED))
    (attempt,) = world.attempts(job)
    assert attempt.reason is End.USER_ERROR
    assert "torhc" in world.job(job).message


def test_the_same_unrecognised_end_twice_without_progress_stops_the_job(world):
    job = world.submit()
    for attempt in (1, 2):
        for worker in world.run(job, attempt):
            world.exit(worker, code=3, log="something odd\n")
        world.until(lambda n=attempt: world.attempts(job)[n - 1].phase is AttemptPhase.ENDED)
    world.until(world.phase_is(job, JobPhase.FAILED))
    assert len(world.attempts(job)) == 2
    assert world.attempts(job)[-1].reason is End.NO_PROGRESS


def test_cancel_stops_a_running_gang_and_an_idle_job_at_once(world):
    running = world.submit("running")
    world.run(running)
    idle = world.submit("idle", workers=50)
    world.until(lambda: world.job(idle).reason != "")
    for job in (running, idle):
        world.wish(job, cancel=True)
    world.until(lambda: {world.job(j).phase for j in (running, idle)} == {JobPhase.CANCELLED})
    assert world.attempts(running)[0].reason is End.CANCELLED
    assert world.attempts(idle) == []


def test_a_job_that_is_being_stopped_says_so(world):
    job = world.submit()
    world.run(job)
    world.wish(job, cancel=True)
    world.until(lambda: world.attempts(job)[0].phase is not AttemptPhase.RUNNING)
    said = world.job(job)
    assert said.phase is JobPhase.CANCELLED or said.message == "is being stopped: cancelled by its user"


def test_suspend_gives_the_nodes_back_and_resume_runs_again(world):
    job = world.submit()
    world.run(job)
    world.wish(job, suspend=True)
    world.until(world.phase_is(job, JobPhase.SUSPENDED))
    assert world.job(job).restarts == 0
    world.wish(job, suspend=False)
    world.run(job, attempt=2)


def test_a_restart_that_was_asked_for_costs_no_budget(world):
    job = world.submit()
    world.run(job)
    world.wish(job, restart_requested=True)
    world.run(job, attempt=2)
    assert world.job(job).restarts == 0
    assert world.attempts(job)[0].reason is End.SUPERSEDED


def test_a_waiting_job_says_why_with_numbers_and_starts_when_room_appears(world):
    first, second = world.submit("first", accelerators=[{"type": "h100", "count": 8}]), None
    world.run(first)
    second = world.submit("second", workers=4, accelerators=[{"type": "h100", "count": 8}], topology={})
    world.until(lambda: world.job(second).reason == Waiting.CAPACITY)
    assert "4" in world.job(second).message
    for worker in world.live_workers(first):
        world.exit(worker, code=0)
    world.run(second)


def test_a_time_limit_without_a_new_checkpoint_fails_the_job(world):
    job = world.submit(timeLimit="30s")
    world.run(job)
    world.until(world.phase_is(job, JobPhase.FAILED), seconds=1.0)
    assert world.attempts(job)[0].reason is End.TIME_LIMIT


def test_a_port_taken_by_a_stranger_is_replaced_within_the_same_attempt(world):
    world.deaf = {"n0", "n1", "n2", "n3"}
    job = world.submit()
    world.until(lambda: bool(world.attempts(job)))
    worker = world.workers(world.attempts(job)[0])[0]
    world.report(worker, WorkerPhase.PREPARING, problem="PORT_BUSY", busy_ports=(worker.ports[0],))
    world.loop.cycle()
    again = world.workers(world.attempts(job)[0])[0]
    assert again.template_revision == 2
    assert worker.ports[0] not in again.ports
    assert again.problem == ""
    world.deaf = set()
    world.run(job)
    assert len(world.attempts(job)) == 1


def test_two_jobs_on_the_same_nodes_never_share_a_device_or_a_port(world):
    jobs = [world.submit(f"job-{i}") for i in range(8)]
    for job in jobs:
        world.run(job)
    workers = [worker for job in jobs for worker in world.live_workers(job)]
    devices = [(worker.node, device) for worker in workers for device in worker.devices]
    ports = [(worker.host, port) for worker in workers for port in worker.ports]
    assert len(devices) == len(set(devices)) == 32
    assert len(ports) == len(set(ports))


def test_a_replaced_leader_writes_nothing_more(world):
    job = world.submit()
    old_loop, old_guard = world.loop, world.guard
    world.clock.advance(11.0)
    world.lead()
    assert world.guard.epoch > old_guard.epoch
    with pytest.raises(LeadershipLost):
        old_loop.cycle()
    assert world.attempts(job) == []
    world.run(job)


def test_a_new_leader_goes_on_where_the_old_one_died_and_restarts_nothing(world):
    job = world.submit()
    world.run(job)
    world.clock.advance(1.0)
    world.lead()
    for _ in range(20):
        world.step()
    assert len(world.attempts(job)) == 1
    assert world.job(job).phase is JobPhase.RUNNING


def test_dying_after_any_transaction_changes_nothing_of_the_outcome(tmp_path):
    """The leader dies after its n-th write, for every n of a story with a failure in it."""
    for n in range(1, 40):
        folder = tmp_path / str(n)
        folder.mkdir()
        world = World(folder)
        died = _story_with_a_death(world, n)
        world.store.close()
        if not died:
            break
    else:
        raise AssertionError("the story has more writes than expected")
    assert n > 5


def _story_with_a_death(world, n):
    class Died(Exception):
        pass

    count = 0

    def publish(_revision):
        nonlocal count
        count += 1
        if count == n:
            raise Died

    world.loop._publish = publish
    died = False
    job = world.submit()
    failed = finished = False
    for _ in range(400):
        try:
            world.step()
        except Died:
            died = True
            world.clock.advance(0.2)
            world.lead()
            continue
        attempts = world.attempts(job)
        if world.job(job).phase is JobPhase.SUCCEEDED:
            break
        if world.job(job).phase is JobPhase.RUNNING and len(attempts) == 1 and not failed:
            world.exit(world.workers(attempts[0])[0], signal=9)
            failed = True
        elif world.job(job).phase is JobPhase.RUNNING and len(attempts) == 2 and not finished:
            for worker in world.workers(attempts[1]):
                world.exit(worker, code=0)
            finished = True
    assert world.job(job).phase is JobPhase.SUCCEEDED
    assert [attempt.reason for attempt in world.attempts(job)] == [End.RANK_FAILED, End.SUCCEEDED]
    return died
