"""Nodes, queues, events, metrics and the document that describes them all."""

from typing import Any

import pytest
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from api import views
from api.services import Services
from controller.records import IncidentRecord, Verdict
from muster.clock import ManualClock, iso
from muster.protocol import CheckpointItem
from tests.api.conftest import JOBS, manifest
from tests.makers import make_attempt, make_job, make_node, make_worker


def queue(name: str = "research", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "muster.dev/v1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def furnish(here: Services) -> None:
    """A node with a job on it, and one of everything that can be read."""
    job = make_job()
    attempt = make_attempt(job)
    worker = make_worker(attempt, node="n0", devices=(0, 3))
    verdict = Verdict(category="crashed_rank", action="restart", why="rank 0 died", culprit_nodes=("n0",))

    def act(w: Any) -> None:
        w.put_node(make_node("n0"))
        w.renew_leases([("n0", "boot")])
        w.insert_job(job)
        w.insert_attempt(attempt)
        w.insert_worker(worker)
        w.put_checkpoints(
            job.uid, attempt.uid, 1, [CheckpointItem(path="/c/1", step=1, format="dcp", complete=True, manifest={"a": 1})]
        )  # fmt: skip
        w.insert_incident(
            IncidentRecord(
                uid="i", job_uid=job.uid, namespace="default", job_name="train", attempt_uid=attempt.uid, verdict=verdict, opened_at=1.0
            )
        )  # fmt: skip

    here.write(act)


class TestNodes:
    def test_show_devices_who_holds_them_and_the_last_renewal(
        self, admin: TestClient, here: Services, clock: ManualClock
    ) -> None:
        furnish(here)
        (node,) = admin.get("/api/v1/nodes").json()["items"]
        assert node == admin.get("/api/v1/nodes/n0").json()
        assert (node["status"]["phase"], node["status"]["cpu"], node["status"]["memory"]) == ("Ready", "64", "512Gi")
        assert len(node["status"]["devices"]) == 8
        assert node["status"]["lastRenewal"] == iso(clock.now())
        assert node["status"]["allocated"] == [
            {"device": device, "namespace": "default", "job": "train", "worker": "job-train-a1-w0"} for device in (0, 3)
        ]

    def test_cordon_and_uncordon_are_events_when_they_change_something(self, admin: TestClient, here: Services) -> None:
        furnish(here)
        for wish, cordoned in (("cordon", True), ("cordon", True), ("uncordon", False)):
            answer = admin.post(f"/api/v1/nodes/n0/{wish}")
            assert (answer.status_code, answer.json()["spec"]["cordoned"]) == (200, cordoned)
        events = admin.get("/api/v1/events").json()["items"]
        assert [one["reason"] for one in events if one["object"]["kind"] == "Node"] == ["Cordoned", "Uncordoned"]

    def test_what_is_not_there_cannot_be_cordoned(self, admin: TestClient) -> None:
        assert admin.post("/api/v1/nodes/n9/cordon").status_code == 404


class TestQueues:
    def test_are_made_changed_and_removed(self, admin: TestClient) -> None:
        made = admin.post("/api/v1/queues", json=queue())
        assert (made.status_code, made.json()["spec"]["weight"]) == (201, 1)
        assert admin.post("/api/v1/queues", json=queue()).json()["code"] == "ALREADY_EXISTS"
        results = [admin.put("/api/v1/queues/research", json=queue(weight=weight)) for weight in (1, 2, 2)]
        assert [one.headers["muster-result"] for one in results] == ["unchanged", "configured", "unchanged"]
        assert results[1].json()["metadata"]["generation"] == 2
        assert admin.put("/api/v1/queues/other", json=queue("other")).status_code == 201
        assert admin.delete("/api/v1/queues/research").status_code == 200
        assert [one["metadata"]["name"] for one in admin.get("/api/v1/queues").json()["items"]] == ["default", "other"]

    def test_one_with_live_jobs_stays(self, admin: TestClient) -> None:
        admin.post("/api/v1/queues", json=queue())
        admin.post(JOBS, json=manifest(queue="research"))
        assert admin.get("/api/v1/queues/research").json()["status"]["jobs"] == {"Queued": 1}
        answer = admin.delete("/api/v1/queues/research")
        assert answer.status_code == 409
        assert "default/train" in answer.json()["detail"]

    def test_the_default_one_is_there_from_the_start(self, admin: TestClient) -> None:
        assert admin.get("/api/v1/queues/default").json()["spec"] == {"weight": 1, "stopped": False}


def test_events_can_be_read_on_from_a_revision(admin: TestClient) -> None:
    for name in ("a", "b"):
        admin.post(JOBS, json=manifest(name))
    events = [
        one for one in admin.get("/api/v1/namespaces/default/events").json()["items"] if one["reason"] == "Submitted"
    ]
    later = admin.get(f"/api/v1/events?after={events[0]['revision']}").json()["items"]
    assert [one["object"]["name"] for one in later if one["reason"] == "Submitted"] == ["b"]
    assert admin.get("/api/v1/namespaces/other/events").json()["items"] == []


def test_metrics_count_requests_by_route_and_jobs_by_phase(admin: TestClient) -> None:
    admin.post(JOBS, json=manifest())
    admin.get(f"{JOBS}/train")
    text = admin.get("/metrics").text
    for line in (
        'muster_queue_jobs{phase="Queued",queue="default"} 1.0',
        'muster_waiting_jobs{queue="default",reason="NEW"} 1.0',
        'muster_outbox_items{state="due"} 0.0',
        'muster_nodes{cordoned="false",phase="Ready"} 0.0',
    ):
        assert line in text
    assert 'muster_jobs{phase="Queued"} 1.0' in text
    assert 'route="/api/v1/namespaces/{namespace}/jobs/{name}",status="200"} 1.0' in text
    assert "train" not in text


VIEWS: list[tuple[str, Any]] = [
    ("/api/v1/jobs", views.ListView[views.JobView]),
    (f"{JOBS}/train", views.JobView),
    (f"{JOBS}/train/attempts", views.ListView[views.AttemptView]),
    (f"{JOBS}/train/events", views.ListView[views.EventView]),
    (f"{JOBS}/train/checkpoints", views.ListView[views.CheckpointView]),
    (f"{JOBS}/train/incidents", views.ListView[views.IncidentView]),
    ("/api/v1/nodes", views.ListView[views.NodeView]),
    ("/api/v1/nodes/n0", views.NodeView),
    ("/api/v1/queues", views.ListView[views.QueueView]),
    ("/api/v1/events", views.ListView[views.EventView]),
    ("/api/v1/version", views.VersionView),
    ("/api/v1/nope", views.ProblemView),
]


@pytest.mark.parametrize(("path", "view"), VIEWS, ids=[path for path, _ in VIEWS])
def test_answers_have_the_shape_that_the_document_shows(
    admin: TestClient, here: Services, path: str, view: Any
) -> None:
    furnish(here)
    found = admin.get(path).json()
    assert TypeAdapter(view).validate_python(found, extra="forbid") == found


class TestOpenApi:
    def test_every_reference_leads_somewhere(self, admin: TestClient) -> None:
        document = admin.get("/openapi.json").json()
        schemas = document["components"]["schemas"]

        def references(node: Any) -> set[str]:
            if isinstance(node, dict):
                own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
                return own.union(*map(references, node.values()))
            return set().union(*map(references, node)) if isinstance(node, list) else set()

        missing = {one for one in references(document) if one.removeprefix("#/components/schemas/") not in schemas}
        assert missing == set()

    def test_every_operation_tells_its_problems_and_what_it_needs(self, admin: TestClient) -> None:
        document = admin.get("/openapi.json").json()
        for path, operations in document["paths"].items():
            for operation in operations.values():
                assert "application/problem+json" in operation["responses"]["default"]["content"]
                assert bool(operation.get("security")) == path.startswith("/api/"), path

    def test_its_examples_are_accepted(self, admin: TestClient) -> None:
        schemas = admin.get("/openapi.json").json()["components"]["schemas"]
        assert admin.post(JOBS, json=schemas["Job"]["examples"][0]).status_code == 201
        assert admin.post("/api/v1/queues", json=schemas["Queue"]["examples"][0]).status_code == 201
