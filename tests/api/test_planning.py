"""What-if and capacity through the API: the planner answers in a process of its own."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.services import Services
from tests.api.conftest import JOBS, manifest
from tests.makers import make_node

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cluster(admin: TestClient, here: Services, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    here.write(lambda w: w.put_node(make_node("n0")))
    admin.post(JOBS, json=manifest("big", workers=2, accelerators=[{"type": "h100", "count": 8}]))
    return admin


@pytest.mark.processes
def test_more_nodes_start_the_job_that_waits_and_nothing_is_written(cluster: TestClient, here: Services) -> None:
    before = cluster.get("/api/v1/jobs").json()
    said = cluster.post("/api/v1/whatif", json={"addNodes": 1, "like": "n0"})
    assert said.status_code == 200, said.text
    found = said.json()
    assert [(one["name"], one["nodes"]) for one in found["starts"]] == [("big", ["n0", "n0+1"])]
    assert found["jobs"][0]["today"]["at"] is None
    assert found["jobs"][0]["then"]["basis"] == "now"
    assert cluster.get("/api/v1/jobs").json() == before
    smaller = manifest("big", workers=1, accelerators=[{"type": "h100", "count": 4}])
    found = cluster.post("/api/v1/whatif", json={"job": smaller}).json()
    assert [one["name"] for one in found["starts"]] == ["big"]
    found = cluster.get("/api/v1/capacity").json()
    assert (found["kind"], found["items"][-1]["level"], found["items"][-1]["gangs"][-1]["workers"]) == (
        "Capacity",
        "node",
        1,
    )
    refused = cluster.post("/api/v1/whatif", json={"drain": ["n9"]})
    assert (refused.status_code, refused.json()["errors"][0]["allowed"]) == (422, ["n0"])


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({}, ""),
        ([], ""),
        ({"quotas": {}}, "quotas"),
        ({"quota": {"default": 3}}, "quota"),
        ({"addNodes": "many"}, "addNodes"),
        ({"job": manifest(queue="nowhere")}, "spec.queue"),
        ({"job": {"kind": "Job"}}, "spec"),
    ],
)
def test_what_is_no_question_is_refused_before_anything_is_started(
    admin: TestClient, question: Any, field: str
) -> None:
    refused = admin.post("/api/v1/whatif", json=question)
    assert refused.status_code == 422
    assert field in [error["field"] for error in refused.json()["errors"]]
