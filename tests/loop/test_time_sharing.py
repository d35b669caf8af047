"""A queue that shares its devices in time: who is expected to end soonest is served first, by what past runs have taught."""

from controller.records import QueueRecord
from muster.reasons import End
from muster.states import JobPhase
from tests.loop.world import World

EIGHT = [{"type": "h100", "count": 8}]


def submit(world: World, name: str, program: str, workers: int = 4, **spec):
    return world.submit(
        name,
        workers,
        topology={},
        accelerators=EIGHT,
        checkpoint={"directory": f"/ckpt/{name}"},
        command=["python", f"{program}.py"],
        **spec,
    )


def done(world: World, job) -> None:
    for worker in world.live_workers(job):
        world.exit(worker, code=0)
    world.until(world.phase_is(job, JobPhase.SUCCEEDED))


def share(world: World) -> None:
    spec = {"discipline": "timeSharing"}
    world.store.transact(lambda w: w.put_queue(QueueRecord(name="default", uid="queue", spec=spec)))


def test_a_run_that_is_known_to_be_short_takes_the_place_of_a_long_one_and_gives_it_back(world):
    share(world)
    for number in range(2):
        quick = submit(world, f"quick-{number}", "quick")
        world.run(quick)
        world.later(world.clock.now() + 60)
        done(world, quick)
    with world.store.read() as r:
        (program,) = r.programs()
    assert (program.namespace, program.name, program.runs) == ("default", "quick.py", 2)
    assert all(32 * 40 < size < 32 * 200 for size in program.sizes)

    long = submit(world, "long", "long")
    world.run(long)
    world.later(world.clock.now() + 3000)
    quick = submit(world, "quick-2", "quick")
    world.run(quick)
    assert world.attempts(long)[0].reason is End.PREEMPTED
    assert world.job(long).attained > 32 * 2900, "what it has had is remembered"
    done(world, quick)
    world.run(long, attempt=2)
    for _ in range(5):
        world.step()
    assert len(world.attempts(long)) == 2, "it is left alone then"


def test_runs_of_one_size_do_not_take_turns_and_who_saves_nothing_is_not_stopped(world):
    share(world)
    first, second = submit(world, "a", "same"), submit(world, "b", "same")
    world.run(first)
    world.later(world.clock.now() + 3000)
    world.step()
    assert world.job(second).phase is JobPhase.QUEUED
    done(world, first)
    world.run(second)
    fixed = world.submit("fixed", 4, topology={}, accelerators=EIGHT, priority=1, command=["python", "long.py"])
    world.run(fixed)
    world.later(world.clock.now() + 3000)
    quick = submit(world, "c", "same", priority=1)
    for _ in range(5):
        world.step()
    assert world.job(fixed).phase is JobPhase.RUNNING
    assert world.job(quick).phase is JobPhase.QUEUED


def test_devices_go_where_they_are_worth_most_and_every_change_of_size_is_a_restart(world):
    share(world)
    profile = {str(workers): float(workers) for workers in range(1, 5)}
    elastic = {"minWorkers": 1, "maxWorkers": 4, "throughput": profile}
    teacher = submit(world, "teacher", "quick", workers=2, **elastic)
    world.run(teacher)
    world.later(world.clock.now() + 400)
    done(world, teacher)
    long = submit(world, "long", "long", workers=2, **elastic)
    world.run(long)
    assert len(world.live_workers(long)) == 4, "alone it has all"
    world.later(world.clock.now() + 1000)
    quick = submit(world, "quick", "quick", workers=2, **elastic)
    world.run(quick)
    assert world.attempts(long)[0].reason in (End.RESIZED, End.PREEMPTED)
    for _ in range(10):
        world.step()
    running = [job for job in (long, quick) if world.job(job).phase is JobPhase.RUNNING]
    assert quick in running
    assert sum(len(world.live_workers(job)) for job in running) == 4
    assert len(world.attempts(quick)) == 1, "the division rests"
    tried = len(world.attempts(long))
    done(world, quick)
    world.until(lambda: world.job(long).phase is JobPhase.RUNNING and len(world.live_workers(long)) == 4)
    assert len(world.attempts(long)) == tried + 1
