"""What a manifest says is what the loop does: placement fields from the wire to where the workers lie."""

from typing import Any

import pytest

from controller.records import QueueRecord, Taint
from muster.resources.parse import parse
from muster.states import JobPhase
from tests.loop.world import World


def wire(**spec: Any) -> dict[str, Any]:
    """The spec as the API stores it."""
    full = {
        "workers": 2,
        "command": ["true"],
        "accelerators": [{"type": "h100", "count": 8}],
        **spec,
    }
    document = {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": full}
    return dict(parse(document).wire()["spec"])


def submit(world: World, name: str, **spec: Any) -> Any:
    return world.submit(name, **wire(**spec))


def nodes(world: World, job: Any) -> list[str]:
    return [worker.node for worker in world.run(job)]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodes": {"exclude": ["n0", "n2"]}}, ["n1", "n3"]),
        ({"nodes": {"include": ["n3", "n1"]}}, ["n1", "n3"]),
        ({"nodeSelector": {"muster.dev/leaf": "b0-l1"}}, ["n2", "n3"]),
        ({"workers": 4, "topology": {"segment": {"size": 2, "level": "leaf"}}}, ["n0", "n1", "n2", "n3"]),
    ],
)
def test_workers_lie_where_the_manifest_allows(world: World, spec: dict[str, Any], expected: list[str]) -> None:
    assert nodes(world, submit(world, "a", **spec)) == expected


def test_a_selector_that_no_node_meets_is_said_with_the_number_of_nodes(world: World) -> None:
    job = submit(world, "a", nodeSelector={"pool": "gold"})
    world.step()
    message = world.job(job).message
    assert "on the 0 of 4 nodes that nodeSelector and nodes allow" in message


def test_who_does_not_allow_preemption_is_never_evicted(world: World) -> None:
    low = submit(world, "low", workers=4, preemption={"allowed": False}, priorityClass="low")
    world.run(low)
    high = submit(world, "high", workers=4, priorityClass="high")
    for _ in range(5):
        world.step()
    assert world.job(low).phase is JobPhase.RUNNING
    assert world.job(high).phase is JobPhase.QUEUED


ROLES = [
    {"name": "learner", "command": ["learn"], "head": True},
    {"name": "actor", "workers": 2, "accelerators": [], "cpu": "2", "memory": "1Gi"},
]


def test_a_gang_of_roles_is_placed_whole_and_each_worker_has_what_its_role_says(world: World) -> None:
    job = submit(world, "a", workers=3, roles=ROLES)
    found = {(one.role, one.index): one for one in world.run(job)}
    assert sorted(found) == [("actor", 0), ("actor", 1), ("learner", 0)]
    assert (len(found["learner", 0].devices), len(found["actor", 0].devices)) == (8, 0)
    assert (found["actor", 1].cpu_milli, found["actor", 1].memory) == (2000, 2**30)
    assert found["learner", 0].template.processes == (("learn",),)


def test_the_success_of_the_head_is_the_gangs_and_the_others_are_stopped(world: World) -> None:
    job = submit(world, "a", workers=3, roles=ROLES)
    head = next(one for one in world.run(job) if one.role == "learner")
    world.exit(head, code=0)
    world.until(world.phase_is(job, JobPhase.SUCCEEDED))
    assert world.attempts(job)[0].reason == "Succeeded"


def test_a_failed_worker_of_any_role_restarts_all_roles(world: World) -> None:
    job = submit(world, "a", workers=3, roles=ROLES)
    actor = next(one for one in world.run(job) if one.role == "actor")
    world.exit(actor, signal=9)
    assert len(world.run(job, attempt=2)) == 3


def test_an_elastic_gang_starts_with_as_many_workers_as_there_is_room_for(world: World) -> None:
    world.run(submit(world, "other", workers=1))
    elastic = submit(world, "a", workers=4, minWorkers=2)
    assert len(world.run(elastic)) == 3


def queue(world: World, name: str, **spec: Any) -> None:
    document = {"apiVersion": "muster.dev/v1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
    record = QueueRecord(name=name, uid=f"queue-{name}", spec=parse(document).wire()["spec"])
    world.store.transact(lambda w: w.put_queue(record))


def test_quota_is_held_borrowed_and_taken_back(world: World) -> None:
    queue(world, "ours", quota={"h100": 16}, borrowLimit={"h100": 8})
    queue(world, "theirs", quota={"h100": 16})
    ours = [submit(world, f"a{number}", workers=1, queue="ours") for number in range(4)]
    for job in ours[:3]:
        world.run(job)
    world.until(lambda: world.job(ours[3]).reason == "QUOTA")
    assert "of 24" in world.job(ours[3]).message
    theirs = submit(world, "b", queue="theirs")
    world.run(theirs)
    assert sum(world.job(job).phase is JobPhase.RUNNING for job in ours) == 2


def test_a_class_that_does_not_preempt_waits(world: World) -> None:
    low = submit(world, "low", workers=4, priorityClass="low")
    world.run(low)
    urgent = submit(world, "urgent", workers=1)
    world.wish(urgent, priority=10**6, preempts=False)
    for _ in range(5):
        world.step()
    assert world.job(low).phase is JobPhase.RUNNING


def test_who_does_not_tolerate_a_taint_keeps_off_the_node_and_is_told(world: World) -> None:
    taint = Taint("dedicated", "ml")
    world.store.transact(lambda w: [w.patch_node(name, taints=(taint,)) for name in ("n0", "n1")])
    for tolerations in (None, [{"key": "dedicated", "value": "web"}]):
        assert nodes(world, submit(world, "a", tolerations=tolerations) if tolerations else submit(world, "b")) == [
            "n2",
            "n3",
        ]
        world.until(
            lambda: not [job for job in world.store_jobs() if job.phase is JobPhase.RUNNING and not finish(world, job)]
        )
    big = submit(world, "big", workers=4)
    world.until(lambda: "tainted with dedicated=ml" in world.job(big).message)
    world.wish(big, cancel=True)
    world.until(world.phase_is(big, JobPhase.CANCELLED))
    used = nodes(world, submit(world, "c", tolerations=[{"key": "dedicated"}]))
    used += nodes(world, submit(world, "d", tolerations=[{"key": "dedicated", "value": "ml"}]))
    assert sorted(used) == ["n0", "n1", "n2", "n3"]


def finish(world: World, job: Any) -> bool:
    for worker in world.live_workers(job):
        world.exit(worker, code=0)
    return True
