"""Why jobs wait is written where it changed, little by little where only numbers did, and moves no plan."""

from typing import Any

from msgspec.structs import replace

from controller.acts.waits import AT_ONCE, Reasons, moves_the_plan
from controller.picture import Picture
from controller.records import Change, JobRecord
from controller.scheduling.types import Wait
from muster.reasons import Waiting
from muster.states import JobPhase
from tests.loop.world import World
from tests.makers import make_job


def picture(world: World) -> Picture:
    with world.store.read() as r:
        return Picture(r.snapshot()[1])


def test_other_numbers_of_many_are_written_little_by_little_and_other_codes_at_once(world: World) -> None:
    count = 2 * AT_ONCE + 50
    with world.store.write() as w:
        for number in range(count):
            w.insert_job(make_job(f"j{number:04}"))
    uids = [f"job-j{number:04}" for number in range(count)]

    def waits(free: int, code: Waiting = Waiting.CAPACITY) -> list[Wait]:
        return [Wait(job_uid=uid, code=code, message=f"{free} are free", numbers={"free": free}) for uid in uids]

    def told(free: int) -> int:
        return sum(job.message == f"{free} are free" for job in picture(world).jobs.values())

    reasons, fixed = Reasons(), {"now": 1.0}
    assert reasons.write(world.store, world.guard, picture(world), waits(1), **fixed)
    assert told(1) == count
    assert not reasons.write(world.store, world.guard, picture(world), waits(1), **fixed)
    assert reasons.write(world.store, world.guard, picture(world), waits(2), **fixed)
    assert told(2) == AT_ONCE
    assert reasons.write_rest(world.store, world.guard, picture(world), **fixed)
    assert told(2) == 2 * AT_ONCE
    assert reasons.write_rest(world.store, world.guard, picture(world), **fixed)
    assert told(2) == count
    assert not reasons.write_rest(world.store, world.guard, picture(world), **fixed)
    assert reasons.write(world.store, world.guard, picture(world), waits(3, Waiting.QUOTA), **fixed)
    assert told(3) == count
    found = picture(world).jobs[uids[0]].wait
    assert found is not None
    assert (found.numbers, found.since) == ({"free": 3}, 1.0)


def test_only_what_a_plan_reads_makes_it_stale() -> None:
    job = make_job(revision=1)

    def change(record: Any, kind: str = "Job") -> Change:
        return Change(revision=2, kind=kind, uid=job.uid, record=record)

    def moved(**fields: Any) -> bool:
        later: JobRecord = replace(job, revision=2, **fields)
        return moves_the_plan(job, change(later))

    assert not moved(reason="CAPACITY", message="full")
    assert moved(suspend=True)
    assert moved(phase=JobPhase.STARTING, reason="")
    assert moves_the_plan(None, change(job))
    assert moves_the_plan(job, Change(revision=2, kind="Job", uid=job.uid, op="delete"))
    assert not moves_the_plan(None, change(None, "Event"))
    assert moves_the_plan(None, change(None, "Node"))
