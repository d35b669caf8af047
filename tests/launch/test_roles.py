"""Roles: each a world of its own that knows where the others are."""

from typing import Any

from controller.launch.render import PlacedWorker, render, unlaunchable
from controller.launch.roles import in_rank_order
from muster.launch import LaunchTemplate
from tests.launch.gangs import job_of, placed
from tests.makers import make_attempt

ROLES: list[dict[str, Any]] = [
    {"name": "learner", "workers": 1, "command": ["python", "learner.py"], "ranksPerWorker": 2, "head": True},
    {"name": "roll-out", "workers": 2, "accelerators": [], "env": {"MODE": "act"}},
]


def launched(framework: str = "command", **spec: Any) -> tuple[LaunchTemplate, ...]:
    job = job_of(framework, roles=ROLES, **spec)
    names = [("learner", 0), ("roll-out", 0), ("roll-out", 1)]
    workers = [
        PlacedWorker(role=role, index=index, node=one.node, host=one.host, address=one.address, ports=one.ports)
        for (role, index), one in zip(names, placed(3), strict=True)
    ]
    return render(job, make_attempt(job), workers)


def test_each_role_runs_its_own_program_with_ranks_from_zero() -> None:
    learner, first, second = launched(env={"MODE": "learn", "A": "1"})
    assert learner.processes[0] == ("python", "learner.py")
    assert (learner.ranks, learner.process_env[1]["RANK"], learner.process_env[1]["WORLD_SIZE"]) == (2, "1", "2")
    assert first.processes == (("python", "train.py", "--lr", "0.1"),)
    assert [one.process_env[0]["RANK"] for one in (first, second)] == ["0", "1"]
    assert second.process_env[0]["MASTER_ADDR"] == first.env["MUSTER_NODE_ADDRESSES"].split(",")[0] == "10.0.0.2"
    assert (learner.env["MODE"], first.env["MODE"], first.env["A"]) == ("learn", "act", "1")
    assert (first.env["MUSTER_ROLE"], first.env["MUSTER_WORKERS"], second.env["MUSTER_WORKER_INDEX"]) == (
        "roll-out",
        "2",
        "1",
    )


def test_everybody_knows_where_the_workers_of_each_role_are() -> None:
    for template in launched():
        assert template.env["MUSTER_ROLES"] == "learner,roll-out"
        assert template.env["MUSTER_ROLE_LEARNER_ADDRESSES"] == "10.0.0.1"
        assert template.env["MUSTER_ROLE_ROLL_OUT_ENDPOINTS"] == "10.0.0.2:12011,10.0.0.3:12019"


def test_with_torchrun_each_role_has_a_rendezvous_of_its_own() -> None:
    learner, first, _ = launched("torchrun")
    assert "learner.py" in learner.processes[0]
    assert learner.processes[0][learner.processes[0].index("--nnodes") + 1] == "1"
    assert first.processes[0][first.processes[0].index("--nnodes") + 1] == "2"
    assert first.processes[0][first.processes[0].index("--master-addr") + 1] == "10.0.0.2"


def test_the_kind_that_was_chosen_brings_its_environment() -> None:
    kinds = [{"type": "h200", "count": 2, "env": {"BATCH": "8"}}, {"type": "h100", "count": 2, "env": {"BATCH": "4"}}]
    job = job_of("command", accelerators=kinds, env={"BATCH": "1"})
    assert [render(job, make_attempt(job), placed(1, kind=kind))[0].env["BATCH"] for kind in ("h200", "h100")] == [
        "8",
        "4",
    ]


def test_a_role_with_a_launcher_of_its_own_is_refused_where_it_stands() -> None:
    error = unlaunchable(
        {"framework": "torchrun", "command": ["a"], "roles": [ROLES[1], {"name": "b", "command": ["torchrun", "x"]}]}
    )
    assert error is not None
    assert error.field == "spec.roles[1].command"


def test_rank_order_is_the_manifests_order_of_roles() -> None:
    spec = {"roles": [{"name": "z"}, {"name": "a"}]}
    workers = [
        PlacedWorker(role=role, index=index, node="n", address="x")
        for role, index in [("a", 1), ("z", 1), ("a", 0), ("z", 0)]
    ]
    assert [(one.role, one.index) for one in in_rank_order(spec, workers)] == [("z", 0), ("z", 1), ("a", 0), ("a", 1)]
