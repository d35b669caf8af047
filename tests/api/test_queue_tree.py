"""The tree of the queues at the API's door."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from api.services import Services
from tests.makers import make_node

QUEUES = "/api/v1/queues"


def put(admin: TestClient, name: str, dry: bool = False, **spec: Any) -> Any:
    document = {"apiVersion": "muster.dev/v1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
    return admin.put(f"{QUEUES}/{name}" + ("?dryRun=true" if dry else ""), json=document)


def test_a_tree_is_kept_as_written_with_kinds_by_their_catalogue_names(admin: TestClient) -> None:
    assert put(admin, "org", quota={"NVIDIA H100 80GB HBM3": 16}).status_code == 201
    spec = {
        "parent": "org",
        "weight": 3,
        "quota": {"h100": 8},
        "borrowLimit": {"h100": 4},
        "lendLimit": {"h100": 2},
        "discipline": "timeSharing",
        "minRuntime": "10m",
        "consolidation": True,
    }
    made = put(admin, "team", **spec).json()
    assert spec.items() <= made["spec"].items()
    assert admin.get(f"{QUEUES}/org").json()["spec"]["quota"] == {"h100": 16}
    assert put(admin, "team", **spec).headers["muster-result"] == "unchanged"
    assert admin.delete(f"{QUEUES}/org").status_code == 409


def test_circles_and_unknown_parents_are_refused_by_name_also_in_a_dry_run(admin: TestClient) -> None:
    put(admin, "a")
    put(admin, "b", parent="a")
    put(admin, "c", parent="b")
    for dry in (True, False):
        refused = put(admin, "a", dry, parent="c")
        assert (refused.status_code, "a -> c -> b -> a" in refused.json()["detail"]) == (422, True)
    assert "d -> d" in put(admin, "d", parent="d").json()["detail"]
    assert 'did you mean "default"?' in put(admin, "d", parent="defalt").json()["detail"]
    assert put(admin, "e", dry=True, parent="a").headers["muster-result"] == "created"
    assert admin.get(f"{QUEUES}/e").status_code == 404


def test_quota_that_no_node_backs_is_warned_of(admin: TestClient, here: Services) -> None:
    here.write(lambda w: w.put_node(make_node("n0")))
    here.inventory.changed()
    assert put(admin, "a", quota={"h100": 8}).json()["status"]["warnings"] == []
    warnings = put(admin, "b", quota={"h100": 8, "a100": 1}).json()["status"]["warnings"]
    assert warnings == [
        "QUOTA: the queues' quota of h100 is 16 together, and the nodes have 8",
        "QUOTA: the queues' quota of a100 is 1 together, and the nodes have 0",
    ]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"quota": {"h10": 1}}, 'did you mean "h100"?'),
        ({"quota": {"h100": -1}}, "expected a number of devices from 0"),
        ({"quota": {"h100": 10**12}}, "expected a number of devices from 0"),
        ({"quota": {"h100": 0.5}}, "expected a whole number of devices"),
        ({"quota": {"h100": 1, "NVIDIA H100 80GB HBM3": 1}}, "which stands there already"),
        ({"discipline": "fifo"}, "spec.discipline: not one of the allowed values"),
        ({"borowLimit": {"h100": 1}}, 'did you mean "borrowLimit"?'),
        ({"weight": -1}, "spec.weight"),
        ({"minRuntime": "soon"}, "expected a duration"),
    ],
)
def test_what_is_wrong_is_said(admin: TestClient, spec: dict[str, Any], sentence: str) -> None:
    refused = put(admin, "a", **spec)
    assert (refused.status_code, sentence in refused.json()["detail"]) == (422, True), refused.json()["detail"]
