"""Verdicts through the whole loop: what is written, and what the next attempt starts from."""

import pytest

from muster.protocol import RankExit
from muster.reasons import End
from muster.states import AttemptPhase, JobPhase, WorkerPhase
from tests.loop.world import World

TRUNCATED = (
    'Traceback (most recent call last):\n  File "train.py", line 8, in <module>\n    load(path)\n'
    "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory\n"
)


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.store.close()


def test_a_checkpoint_that_cannot_be_read_is_passed_over_for_good(world):
    job = world.submit(checkpoint={"directory": "/c"})
    workers = world.run(job)
    first = world.attempts(job)[0]
    world.progress(first, 40)
    world.checkpoint(first, ("/c/step-20", 20, True), ("/c/step-30", 30, True))
    world.exit(workers[1], signal=9)
    workers = world.run(job, attempt=2)
    world.exit(workers[0], code=1, log=TRUNCATED)
    workers = world.run(job, attempt=3)
    world.exit(workers[1], signal=9)
    world.run(job, attempt=4)
    assert [attempt.resume and attempt.resume.step for attempt in world.attempts(job)] == [None, 30, 20, 20]


def test_a_node_lost_after_every_rank_had_succeeded_does_not_restart_the_job(world):
    job = world.submit()
    workers = world.run(job)
    for worker in workers:
        done = (RankExit(process=0, rank=worker.index, code=0, at=world.clock.now()),)
        world.report(worker, WorkerPhase.RUNNING, exits=done)
    world.silent = {workers[0].node}
    world.report(workers[1], WorkerPhase.EXITED)
    world.until(world.phase_is(job, JobPhase.SUCCEEDED))
    (attempt,) = world.attempts(job)
    assert (attempt.phase, attempt.reason) == (AttemptPhase.ENDED, End.SUCCEEDED)
    assert world.job(job).finished_at is not None
    assert world.job(job).reason == ""
    with world.store.read() as r:
        assert r.incidents(job_uid=job.uid) == []


def test_a_missing_program_on_one_node_moves_the_gang_and_is_not_the_users(world):
    world.deaf = {"n0", "n1", "n2", "n3"}
    job = world.submit()
    world.until(lambda: bool(world.attempts(job)))
    lacking, other = world.workers(world.attempts(job)[0])
    for phase in (WorkerPhase.PREPARING, WorkerPhase.READY):
        world.report(other, phase)
    world.report(lacking, WorkerPhase.EXITED, problem="NO_SUCH_COMMAND", message="no program 'train'")
    world.deaf = set()
    again = world.run(job, attempt=2)
    assert lacking.node not in {worker.node for worker in again}
    assert world.attempts(job)[0].reason is End.LAUNCH_FAILED
