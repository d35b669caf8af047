"""Gangs that shrink, grow and move: each begins anew from its checkpoint, in a place that was bound before it stopped."""

from controller.records import MaintenanceWindowRecord
from muster.reasons import End
from muster.states import JobPhase
from tests.loop.world import World

EIGHT = [{"type": "h100", "count": 8}]
ANYWHERE = {"topology": {}, "accelerators": EIGHT}
SAVING = {"checkpoint": {"directory": "/ckpt/train"}}


def queue(world: World, name: str = "default", **spec) -> None:
    from controller.records import QueueRecord

    world.store.transact(lambda w: w.put_queue(QueueRecord(name=name, uid=f"queue-{name}", spec=spec)))


def save(world: World, job, step: int) -> None:
    attempt = world.attempts(job)[-1]
    world.progress(attempt, step)
    world.checkpoint(attempt, (f"/ckpt/train/step-{step}", step, True))


def nodes(world: World, job) -> list[str]:
    return sorted(worker.node for worker in world.live_workers(job))


def elastic(world: World, least: int = 1, most: int = 4, **spec):
    return world.submit("wide", workers=most, minWorkers=least, **{**ANYWHERE, **SAVING, **spec})


def test_an_elastic_gang_gives_up_what_a_better_one_needs_and_goes_on_from_its_checkpoint(world):
    wide = elastic(world)
    world.run(wide)
    save(world, wide, 40)
    high = world.submit("high", workers=2, priorityClass="high", **ANYWHERE)
    world.loop.cycle()
    claim = world.job(wide).claim
    assert len(claim.nodes) == 2
    assert claim.deadline > world.clock.now()
    world.run(high)
    world.run(wide, attempt=2)
    first, second = world.attempts(wide)
    assert (first.reason, second.resume.step, second.redone_steps) == (End.RESIZED, 40, 0)
    assert len(world.live_workers(wide)) == 2
    assert not set(nodes(world, wide)) & set(nodes(world, high))
    assert world.job(wide).claim is None
    assert world.job(wide).restarts == 0, "being resized costs no restart"


def test_it_grows_back_only_when_it_has_settled_and_a_checkpoint_is_fresh(world):
    wide = elastic(world)
    world.run(wide)
    high = world.submit("high", workers=2, priorityClass="high", **ANYWHERE)
    for worker in world.run(high):
        world.exit(worker, code=0)
    world.run(wide, attempt=2)
    began = world.attempts(wide)[-1].running_at
    world.later(began + 590)
    while world.clock.now() < began + 595:
        world.step(seconds=1)
        assert len(world.attempts(wide)) == 2, "it rests in its size at first"
    save(world, wide, 90)
    world.run(wide, attempt=3)
    assert world.clock.now() < began + 700, "the loop wakes at the date by itself"
    assert len(world.live_workers(wide)) == 4
    assert world.attempts(wide)[-1].resume.step == 90


def test_a_gang_that_saves_nothing_is_not_resized(world):
    wide = elastic(world, checkpoint=None)
    world.run(wide)
    high = world.submit("high", workers=2, priorityClass="high", **ANYWHERE)
    world.run(high)
    assert world.attempts(wide)[0].reason is End.PREEMPTED


def test_a_gang_moves_so_that_another_finds_a_leaf_whole(world):
    queue(world, consolidation=True)
    first = world.submit("first", workers=1, **ANYWHERE)
    second = world.submit("second", workers=2, preemption={"allowed": False}, **ANYWHERE)
    world.run(first)
    world.run(second)
    third = world.submit("third", workers=1, **{**ANYWHERE, **SAVING})
    world.run(third)
    for worker in world.live_workers(first):
        world.exit(worker, code=0)
    world.until(world.phase_is(first, JobPhase.SUCCEEDED))
    save(world, third, 7)
    alone = nodes(world, third)
    fourth = world.submit("pair", workers=1, **ANYWHERE)
    world.run(fourth)
    assert nodes(world, third) == alone, "nobody moves without need"


def test_a_scattered_gang_makes_a_leaf_whole_and_its_destination_is_bound_first(world):
    queue(world, consolidation=True)
    pinned = [
        world.submit(f"pin-{node}", workers=1, preemption={"allowed": False}, **ANYWHERE) for node in ("a", "b", "c")
    ]
    for job in pinned:
        world.run(job)
    saver = world.submit("saver", workers=1, **{**ANYWHERE, **SAVING})
    world.run(saver)
    (own,) = nodes(world, saver)
    leaf = {"n0": "n1", "n1": "n0", "n2": "n3", "n3": "n2"}
    beside = next(job for job in pinned if nodes(world, job) == [leaf[own]])
    other = next(job for job in pinned if job is not beside)
    save(world, saver, 5)
    for job in (beside, other):
        for worker in world.live_workers(job):
            world.exit(worker, code=0)
        world.until(world.phase_is(job, JobPhase.SUCCEEDED))
    world.deaf = {own}
    pair = world.submit("pair", workers=2, accelerators=EIGHT, topology={"required": "leaf"})
    world.until(lambda: world.job(saver).claim is not None and world.job(pair).claim is not None)
    (destination,) = world.job(saver).claim.nodes
    late = world.submit("late", workers=1, **ANYWHERE)
    for _ in range(5):
        world.step()
        assert world.job(late).phase is JobPhase.QUEUED, "the destination is kept while the source still runs"
    world.lead()
    world.deaf = set()
    world.run(pair)
    world.run(saver, attempt=2)
    assert world.attempts(saver)[0].reason is End.MIGRATED
    assert world.attempts(saver)[1].resume.step == 5
    assert nodes(world, saver) == [destination]
    with world.store.read() as r:
        assert {e.reason for e in r.events(object_uid=saver.uid)} & {"Saved"}


def test_min_runtime_over_wakes_the_planner_without_a_change(world):
    queue(world, minRuntime="5m")
    low = world.submit("low", workers=4, **ANYWHERE)
    world.run(low)
    began = world.attempts(low)[0].running_at
    high = world.submit("high", workers=1, priorityClass="high", **ANYWHERE)
    world.step()
    world.later(began + 290)
    while world.clock.now() < began + 295:
        world.step(seconds=1)
    assert world.job(low).phase is JobPhase.RUNNING
    world.run(high)
    assert world.attempts(low)[0].reason is End.PREEMPTED
    assert world.clock.now() < began + 310


def test_past_the_deadline_of_its_claim_a_gang_takes_other_room_and_nobody_else_is_told(world):
    low = [world.submit(f"low-{i}", workers=2, accelerators=EIGHT) for i in range(2)]
    for job in low:
        world.run(job)
    world.deaf = {"n0", "n1", "n2", "n3"}
    high = world.submit("high", workers=2, accelerators=EIGHT, priorityClass="high")
    world.until(lambda: world.job(high).claim is not None)
    claim = world.job(high).claim
    stuck = next(job for job in low if world.attempts(job)[0].reason is End.PREEMPTED)
    other = next(job for job in low if job is not stuck)
    world.later(claim.deadline - 2)
    while world.clock.now() < claim.deadline + 5:
        world.step(seconds=1)
    assert world.attempts(other)[0].reason is None, "no second signal"
    world.wish(other, cancel=True)
    world.until(lambda: world.job(high).claim is not None and world.job(high).claim.nodes != claim.nodes)
    world.deaf = set(claim.nodes)
    world.run(high)
    assert world.job(stuck).phase is JobPhase.RUNNING


def test_a_higher_gang_takes_a_claim_over_instead_of_evicting_more(world):
    low = [world.submit(f"low-{i}", workers=2, accelerators=EIGHT) for i in range(2)]
    for job in low:
        world.run(job)
    world.deaf = {"n0", "n1", "n2", "n3"}
    middle = world.submit("middle", workers=2, accelerators=EIGHT, priority=50)
    world.until(lambda: world.job(middle).claim is not None)
    high = world.submit("high", workers=2, accelerators=EIGHT, priority=100)
    world.until(lambda: world.job(high).claim is not None)
    told = [job for job in low if world.attempts(job)[0].reason is End.PREEMPTED]
    world.deaf = set()
    world.run(high)
    assert {worker.node for worker in world.live_workers(high)} == {
        w.node for w in world.workers(world.attempts(told[0])[0])
    }


def test_when_a_blocked_gang_starts_at_the_latest_is_recorded_and_forgotten(world):
    first = world.submit("first", workers=4, timeLimit="1h", **ANYWHERE)
    world.run(first)
    ends = world.attempts(first)[0].running_at + 3600
    big = world.submit("big", workers=4, timeLimit="1h", **ANYWHERE)
    world.until(lambda: world.job(big).promise is not None)
    promise = world.job(big).promise
    assert abs(promise.at - ends) < 1
    assert sorted(promise.nodes) == ["n0", "n1", "n2", "n3"]
    for worker in world.live_workers(first):
        world.exit(worker, code=0)
    world.run(big)
    assert world.job(big).promise is None


def test_a_window_that_stops_what_runs_begins_by_itself_and_ends_by_itself(world):
    job = world.submit("train", workers=4, **{**ANYWHERE, **SAVING})
    world.run(job)
    began = world.clock.now()
    window = MaintenanceWindowRecord(
        name="kernel",
        uid="window",
        spec={"nodes": ["n0"], "running": "stop"},
        starts_at=began + 5,
        ends_at=began + 15,
    )
    world.store.transact(lambda w: w.put_policy(window))
    while world.clock.now() < began + 4:
        world.step()
    assert world.job(job).phase is JobPhase.RUNNING
    world.until(world.phase_is(job, JobPhase.QUEUED), seconds=0.5)
    assert world.attempts(job)[0].reason is End.DRAINED
    assert "kernel" in world.attempts(job)[0].message
    world.step()
    assert world.job(job).reason == "RESERVED_FOR_OTHER"
    world.run(job, attempt=2)
    assert began + 15 <= world.clock.now() < began + 20


def test_what_a_queue_has_used_is_booked_at_each_end_and_fades(world):
    queue(world, usageHalfLife="1h")
    for number in range(2):
        job = world.submit(f"job-{number}", workers=2, **ANYWHERE)
        world.run(job)
        world.later(world.clock.now() + 600)
        for worker in world.live_workers(job):
            world.exit(worker, code=0)
        world.until(world.phase_is(job, JobPhase.SUCCEEDED))
    with world.store.read() as r:
        found = r.queue("default")
    once = 16 * 600
    assert 1.7 * once < found.usage["h100"] < 2.1 * once
    assert world.clock.now() - found.usage_at < 5


def test_a_gang_that_uses_its_grace_for_nothing_is_told_of(world):
    wide = elastic(world)
    world.run(wide)
    save(world, wide, 40)
    world.progress(world.attempts(wide)[0], 55)
    world.run(world.submit("high", workers=2, priorityClass="high", **ANYWHERE))
    world.run(wide, attempt=2)
    assert world.attempts(wide)[1].redone_steps == 15
    with world.store.read() as r:
        (told,) = [event.message for event in r.events(object_uid=wide.uid) if event.reason == "NotSaved"]
    assert told == "no new checkpoint came within its grace; it goes on from step 40, 15 steps are done again"
