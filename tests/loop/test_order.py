"""Dependencies and arrays, from manifests to who runs when."""

from collections import Counter
from typing import Any

import pytest

from muster.states import JobPhase
from tests.loop.test_fields import wire
from tests.loop.world import World


def submit(world: World, name: str, **spec: Any) -> Any:
    return world.submit(name, **wire(workers=1, accelerators=[{"type": "h100", "count": 8}], **spec))


def finish(world: World, job: Any, code: int = 0) -> None:
    for worker in world.live_workers(job):
        world.exit(worker, code=code)


def elements(world: World, array: Any) -> dict[int, Any]:
    found = (job for job in world.store_jobs() if job.parent == array.uid)
    return {job.element: job for job in found}


def phases(world: World, array: Any) -> dict[str, int]:
    return dict(Counter(str(job.phase) for job in elements(world, array).values()))


class TestDependencies:
    def test_a_job_waits_for_the_success_of_another_and_says_so(self, world: World) -> None:
        first = submit(world, "prepare")
        second = submit(world, "train", after=[{"job": "prepare"}])
        world.run(first)
        assert world.job(second).reason == "DEPENDENCY"
        assert world.job(second).message == "waits for prepare to succeed; it is Running"
        finish(world, first)
        world.run(second)
        assert world.job(second).met == ("prepare",)

    @pytest.mark.parametrize(
        ("condition", "code", "starts"),
        [
            ("succeeded", 1, False),
            ("failed", 1, True),
            ("failed", 0, False),
            ("finished", 1, True),
            ("started", 0, True),
        ],
    )
    def test_each_condition_is_its_own(self, world: World, condition: str, code: int, starts: bool) -> None:
        first = submit(world, "a", recovery={"maxRestarts": 0})
        second = submit(world, "b", after=[{"job": "a", "condition": condition}])
        world.run(first)
        if condition == "started":
            world.run(second)
            return
        finish(world, first, code)
        world.until(lambda: world.job(first).phase in (JobPhase.FAILED, JobPhase.SUCCEEDED))
        if starts:
            world.run(second)
        else:
            world.until(lambda: "it has ended as" in world.job(second).message)
            assert world.job(second).phase is JobPhase.QUEUED
            again = submit(world, "a", command=["false"] if condition == "failed" else ["true"])
            world.run(again)
            finish(world, again, code=0 if condition == "succeeded" else 1)

    def test_one_that_does_not_exist_yet_is_waited_for(self, world: World) -> None:
        second = submit(world, "b", after=[{"job": "a"}])
        world.until(lambda: world.job(second).reason == "DEPENDENCY")
        assert "there is no such job yet" in world.job(second).message
        first = submit(world, "a")
        world.run(first)
        finish(world, first)
        world.run(second)

    def test_what_came_true_stays_true_over_a_new_leader_and_a_new_job_of_that_name(self, world: World) -> None:
        first = submit(world, "a")
        world.run(first)
        second = submit(world, "b", after=[{"job": "a", "condition": "started"}], suspend=True)
        world.wish(second, suspend=True)
        world.until(lambda: world.job(second).met == ("a",))
        finish(world, first)
        world.until(world.phase_is(first, JobPhase.SUCCEEDED))
        submit(world, "a", after=[{"job": "nobody"}])
        world.wish(second, suspend=False)
        world.lead()
        world.run(second)


class TestArrays:
    def test_elements_are_jobs_of_their_own_and_no_more_at_once_than_said(self, world: World) -> None:
        array = submit(world, "sweep", array={"indices": "0-4%2"}, checkpoint={"directory": "/ckpt"})
        world.until(lambda: phases(world, array) == {"Running": 2})
        assert world.job(array).phase is JobPhase.RUNNING
        world.until(lambda: world.job(array).message == "2 running, 3 to come (at most 2 at once)")
        first = elements(world, array)[0]
        (worker,) = world.live_workers(first)
        env = worker.template.env
        assert (env["MUSTER_ARRAY_INDEX"], env["MUSTER_ARRAY_SIZE"], env["MUSTER_ARRAY_JOB"]) == ("0", "5", "sweep")
        assert env["MUSTER_CHECKPOINT_DIR"] == "/ckpt/0"
        assert world.attempts(first)[0].scope == "element-0"
        world.exit(worker, signal=9)
        world.until(world.phase_is(first, JobPhase.RUNNING, attempt=2))
        assert len(world.attempts(elements(world, array)[1])) == 1, "each element has its own attempts"
        while world.job(array).phase is JobPhase.RUNNING:
            for one in elements(world, array).values():
                if one.phase is JobPhase.RUNNING:
                    finish(world, one)
            world.step()
            assert sum(job.phase not in ("Succeeded",) for job in elements(world, array).values()) <= 2
        assert world.job(array).phase is JobPhase.SUCCEEDED
        assert phases(world, array) == {"Succeeded": 5}

    def test_a_matrix_gives_each_combination_its_values(self, world: World) -> None:
        array = submit(world, "grid", array={"matrix": {"LR": ["1e-4", 0.1], "SEED": [1, 2]}})
        world.until(lambda: len(elements(world, array)) == 4)
        values = {index: job.spec["env"] for index, job in elements(world, array).items()}
        assert [(values[at]["LR"], values[at]["SEED"]) for at in range(4)] == [
            ("1e-4", "1"),
            ("1e-4", "2"),
            ("0.1", "1"),
            ("0.1", "2"),
        ]

    def test_one_failed_element_fails_the_array_when_all_are_done(self, world: World) -> None:
        array = submit(world, "sweep", array={"indices": "7,9"}, recovery={"maxRestarts": 0})
        world.until(lambda: phases(world, array) == {"Running": 2})
        finish(world, elements(world, array)[7], code=1)
        world.until(lambda: phases(world, array).get("Failed") == 1)
        assert world.job(array).phase is JobPhase.RUNNING
        finish(world, elements(world, array)[9])
        world.until(world.phase_is(array, JobPhase.FAILED))
        assert world.job(array).message == "1 of 2 elements failed, 1 of 2 elements succeeded"

    def test_what_is_wished_of_the_array_is_wished_of_its_elements(self, world: World) -> None:
        array = submit(world, "sweep", array={"indices": "0-9%2"})
        world.until(lambda: phases(world, array) == {"Running": 2})
        world.wish(array, suspend=True)
        world.until(world.phase_is(array, JobPhase.SUSPENDED))
        assert phases(world, array) == {"Suspended": 2}
        world.lead()
        world.wish(array, suspend=False)
        world.until(lambda: phases(world, array) == {"Running": 2})
        world.wish(array, cancel=True)
        world.until(world.phase_is(array, JobPhase.CANCELLED))
        assert phases(world, array) == {"Cancelled": 2}

    def test_a_job_may_come_after_an_array_and_an_array_after_a_job(self, world: World) -> None:
        first = submit(world, "prepare")
        array = submit(world, "sweep", array={"indices": "0-1"}, after=[{"job": "prepare"}])
        last = submit(world, "report", after=[{"job": "sweep"}])
        world.run(first)
        assert (world.job(array).reason, elements(world, array)) == ("DEPENDENCY", {})
        told = world.job(array).wait
        assert told is not None
        assert told.numbers == {"dependencies": 1, "dependencies met": 0}
        finish(world, first)
        world.until(lambda: phases(world, array) == {"Running": 2})
        for one in elements(world, array).values():
            finish(world, one)
        world.run(last)

    def test_a_name_that_is_taken_is_waited_for(self, world: World) -> None:
        other = submit(world, "sweep-1")
        world.run(other)
        array = submit(world, "sweep", array={"indices": "0-1"})
        world.until(lambda: "sweep-1 belongs to another live job" in world.job(array).message)
        finish(world, other)
        world.until(lambda: set(elements(world, array)) == {0, 1})


@pytest.mark.parametrize("died_at", range(1, 13, 2))
def test_an_array_whose_leader_dies_after_any_write_has_each_element_once(world: World, died_at: int) -> None:
    class Died(Exception):
        pass

    writes = 0

    def publish(_revision: int) -> None:
        nonlocal writes
        writes += 1
        if writes == died_at:
            raise Died

    world.loop._publish = publish
    first = submit(world, "prepare")
    array = submit(world, "sweep", array={"indices": "3,5,8%2"}, after=[{"job": "prepare"}])
    for _ in range(200):
        try:
            world.step()
        except Died:
            world.lead()
        for job in world.store_jobs():
            if job.phase is JobPhase.RUNNING and job.uid != array.uid:
                finish(world, job)
        if world.job(array).phase is JobPhase.SUCCEEDED:
            break
    found = [job for job in world.store_jobs() if job.parent == array.uid]
    assert sorted(str(job.element) for job in found) == ["3", "5", "8"]
    assert {job.phase for job in found} == {JobPhase.SUCCEEDED}
    assert world.job(first).phase is world.job(array).phase is JobPhase.SUCCEEDED
    assert all(len(world.attempts(job)) == 1 for job in found)
