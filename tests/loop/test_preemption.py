"""A job of higher priority claims what a lower one vacates."""

from controller.acts.preempt import commit_eviction
from controller.scheduling.types import Eviction, Victim, WorkerPlacement
from muster.reasons import End
from muster.states import JobPhase
from tests.loop.world import World


def fill(world: World) -> list:
    jobs = [world.submit(f"low-{i}", workers=2, accelerators=[{"type": "h100", "count": 8}]) for i in range(2)]
    for job in jobs:
        world.run(job)
    return jobs


def test_a_lower_job_is_stopped_saves_and_waits_while_the_higher_one_runs_on_its_nodes(world):
    low = fill(world)
    high = world.submit("high", workers=2, accelerators=[{"type": "h100", "count": 8}], priorityClass="high")
    world.run(high)
    ended = [job for job in low if world.attempts(job)[0].reason is End.PREEMPTED]
    assert len(ended) == 1, "one is enough"
    assert world.job(ended[0]).phase is JobPhase.QUEUED
    assert "high" in world.attempts(ended[0])[0].message
    assert world.job(high).claim is None
    nodes = {worker.node for worker in world.workers(world.attempts(ended[0])[0])}
    assert {worker.node for worker in world.workers(world.attempts(high)[0])} == nodes


def test_the_claim_is_kept_over_a_new_leader_while_the_victim_is_still_stopping(world):
    fill(world)
    world.deaf = {"n0", "n1", "n2", "n3"}
    high = world.submit("high", workers=2, accelerators=[{"type": "h100", "count": 8}], priorityClass="high")
    world.until(lambda: world.job(high).claim is not None)
    first = world.job(high).claim
    world.lead()
    for _ in range(5):
        world.step()
    assert world.job(high).claim == first, "nobody is told a second time"
    world.deaf = set()
    world.run(high)


def test_equal_priority_evicts_nobody(world):
    low = fill(world)
    other = world.submit("other", workers=2, accelerators=[{"type": "h100", "count": 8}])
    for _ in range(10):
        world.step()
    assert world.job(other).phase is JobPhase.QUEUED
    assert all(world.job(job).phase is JobPhase.RUNNING for job in low)


def test_an_eviction_of_somebody_who_is_gone_is_dropped_whole(world):
    low = fill(world)
    other = world.submit("other", workers=2, accelerators=[{"type": "h100", "count": 8}])
    victims = (
        Victim(job_uid=low[0].uid, attempt_uid=world.attempts(low[0])[0].uid),
        Victim(job_uid=low[1].uid, attempt_uid="gone"),
    )
    eviction = Eviction(job_uid=other.uid, victims=victims, workers=(WorkerPlacement("n0"),))
    assert world.store.transact(lambda w: commit_eviction(w, eviction, now=world.clock.now())) is False
    assert world.attempts(low[0])[0].phase == "Running"
    assert world.job(other).claim is None
