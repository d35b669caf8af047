"""Gangs of several shapes, and elastic ones, as manifests."""

from typing import Any

import pytest

from muster.problems import Problem
from muster.resources.job import Job
from muster.resources.parse import parse

ROLES = [
    {"name": "learner", "workers": 1, "command": ["python", "learner.py"], "head": True},
    {"name": "actor", "workers": 3, "accelerators": [], "cpu": "4"},
]


def manifest(**spec: Any) -> dict[str, Any]:
    full = {"command": ["true"], "accelerators": [{"type": "h100", "count": 8}], **spec}
    given = {name: value for name, value in full.items() if value is not ...}
    return {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": given}


def test_roles_are_kept_as_written_and_their_sum_is_the_gangs_workers() -> None:
    job = parse(manifest(roles=ROLES))
    assert isinstance(job, Job)
    wire = job.wire()
    assert wire["spec"]["workers"] == 4
    assert [role["name"] for role in wire["spec"]["roles"]] == ["learner", "actor"]
    assert parse(wire) == job


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"roles": []}, "spec.roles"),
        ({"roles": ROLES, "workers": 5}, "leave it out, or say the sum of the roles, 4"),
        ({"roles": [ROLES[1], ROLES[1]]}, "the name actor stands twice"),
        ({"roles": [ROLES[0], {**ROLES[1], "head": True}]}, "at most one of them is the head"),
        ({"roles": ROLES, "command": ...}, "roles actor have none of their own"),
        ({"roles": [{**ROLES[1], "restart": "role"}]}, "all roles restart together"),
        ({"roles": [{**ROLES[1], "wrkers": 2}]}, 'did you mean "workers"?'),
        ({"roles": [{**ROLES[1], "workers": 0}]}, "spec.roles[0].workers"),
        ({"roles": [{**ROLES[1], "workers": 10**9}]}, "spec.roles[0].workers"),
        ({"roles": ROLES, "minWorkers": 1}, "minWorkers: not together with roles"),
        ({"roles": ROLES, "topology": {"rails": "match"}}, "topology.rails: not together with roles yet"),
        ({"roles": ROLES, "accelerators": [{"type": "h100", "count": 1}] * 2}, "with roles one kind"),
        ({"workers": 4, "minWorkers": 5}, "5 is more than its 4 workers"),
        ({"workers": 4, "minWorkers": 0}, "spec.minWorkers"),
        ({"workers": 1.5}, "spec.workers"),
        ({"workers": -1}, "spec.workers"),
        ({"workers": 10**30}, "spec.workers"),
        ({"accelerators": [{"type": "h100", "count": 0.5}]}, "parts of a device are not given out yet"),
        ({"accelerators": [{"type": "h100", "count": "0.5"}]}, "parts of a device are not given out yet"),
        ({"accelerators": [{"type": "h100", "count": 0}]}, "spec.accelerators[0].count"),
        ({"accelerators": [{"type": "h100", "count": 10**20}]}, "spec.accelerators[0].count"),
        ({"resources": {"licence": 1}}, "only cpu, memory and accelerators are counted"),
        ({"tolerations": [{"value": "x"}]}, "spec.tolerations[0].key: required"),
        ({"tolerations": [{"key": "a b"}]}, "expected [prefix/]name"),
        ({"accelerators": [{"type": "h100", "count": 1, "env": {"A B": "1"}}]}, "'A B' is not a name"),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(spec: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Problem) as caught:
        parse(manifest(**spec))
    found = [error.sentence() for error in caught.value.errors]
    assert any(sentence in one for one in found), found
