"""Priority classes, reservations and maintenance windows, from manifests to what they decide at submission."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from api.services import Services
from muster.clock import ManualClock, iso
from tests.api.conftest import JOBS, manifest

BASE = "/api/v1"
PLURALS = {
    "PriorityClass": "priorityclasses",
    "Reservation": "reservations",
    "MaintenanceWindow": "maintenancewindows",
}
SPECS: dict[str, dict[str, Any]] = {
    "PriorityClass": {"value": 500, "preempts": "never"},
    "Reservation": {"nodes": ["n0"], "duration": "2h", "who": {"namespaces": ["course"]}},
    "MaintenanceWindow": {"nodeSelector": {"muster.dev/block": "b0"}, "start": "2026-12-01T08:00:00+02:00", "duration": "1h"},
}  # fmt: skip


def declared(kind: str, name: str = "x", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "muster.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": {**SPECS[kind], **spec}}


@pytest.mark.parametrize("kind", SPECS)
def test_each_kind_is_made_read_changed_and_deleted(admin: TestClient, kind: str) -> None:
    place = f"{BASE}/{PLURALS[kind]}"
    dry = admin.put(f"{place}/x?dryRun=true", json=declared(kind))
    assert (dry.status_code, dry.headers["muster-result"]) == (200, "created")
    assert admin.get(f"{place}/x").status_code == 404
    made = admin.put(f"{place}/x", json=declared(kind))
    assert (made.status_code, made.headers["muster-result"]) == (201, "created")
    assert admin.put(f"{place}/x", json=made.json()).headers["muster-result"] == "unchanged"
    assert admin.post(place, json=declared(kind)).status_code == 409
    changed = admin.put(
        f"{place}/x", json=declared(kind, **({"value": 7} if kind == "PriorityClass" else {"duration": "5h"}))
    )
    assert changed.headers["muster-result"] == "configured"
    assert "x" in [one["metadata"]["name"] for one in admin.get(place).json()["items"]]
    assert admin.delete(f"{place}/x").status_code == 200
    assert admin.get(f"{place}/x").status_code == 404


def test_a_span_begins_when_it_is_made_and_no_second_time(admin: TestClient, clock: ManualClock) -> None:
    place, began = f"{BASE}/reservations/x", clock.now()
    admin.put(place, json=declared("Reservation"))
    clock.advance(600)
    labelled = declared("Reservation")
    labelled["metadata"]["labels"] = {"team": "a"}
    status = admin.put(place, json=labelled).json()["status"]
    assert (status["startsAt"], status["endsAt"]) == (iso(began), iso(began + 7200))


@pytest.mark.parametrize(
    ("kind", "spec", "sentence"),
    [
        ("PriorityClass", {"value": "urgent"}, "spec.value"),
        ("PriorityClass", {"who": {}}, "expected at least one of namespaces, users and queues"),
        ("Reservation", {"end": "2026-12-01T08:00:00Z"}, "exactly one of end and duration"),
        ("Reservation", {"size": 2}, "exactly one of nodes and size"),
        ("Reservation", {"duration": None, "end": "2001-01-01T00:00:00Z"}, "is not after its start"),
        ("Reservation", {"start": "tomorrow"}, "expected a time with its offset"),
        ("MaintenanceWindow", {"nodeSelector": None}, "expected nodes or nodeSelector"),
        ("MaintenanceWindow", {"durration": "1h"}, 'did you mean "duration"?'),
    ],
)
def test_what_is_wrong_is_said(admin: TestClient, kind: str, spec: dict[str, Any], sentence: str) -> None:
    document = declared(kind, **spec)
    document["spec"] = {name: value for name, value in document["spec"].items() if value is not None}
    answer = admin.put(f"{BASE}/{PLURALS[kind]}/x", json=document)
    assert answer.status_code == 422
    assert sentence in answer.json()["detail"]


class TestPriorityClasses:
    def test_a_job_takes_its_priority_when_it_is_submitted(self, admin: TestClient, here: Services) -> None:
        admin.put(f"{BASE}/priorityclasses/urgent", json=declared("PriorityClass", "urgent"))
        answer = admin.post(JOBS, json=manifest("a", priorityClass="urgent"))
        assert answer.status_code == 201, answer.json()
        admin.put(f"{BASE}/priorityclasses/urgent", json=declared("PriorityClass", "urgent", value=1))
        with here.store.read() as r:
            job = r.job(answer.json()["metadata"]["uid"])
        assert job is not None
        assert (job.priority, job.preempts) == (500, False)
        assert admin.delete(f"{BASE}/priorityclasses/urgent").status_code == 409

    def test_only_who_may_use_it_may_and_the_nearest_name_is_suggested(self, admin: TestClient) -> None:
        who = {"namespaces": ["elsewhere"]}
        admin.put(f"{BASE}/priorityclasses/urgent", json=declared("PriorityClass", "urgent", who=who))
        refused = admin.post(JOBS, json=manifest("a", priorityClass="urgent"))
        assert refused.status_code == 422
        assert "may be used only by namespaces elsewhere" in refused.json()["detail"]
        assert 'did you mean "urgent"?' in admin.post(JOBS, json=manifest("a", priorityClass="urgnt")).json()["detail"]

    def test_those_that_exist_by_themselves_stay(self, admin: TestClient) -> None:
        assert [one["metadata"]["name"] for one in admin.get(f"{BASE}/priorityclasses").json()["items"]] == [
            "high",
            "low",
            "normal",
        ]
        assert admin.delete(f"{BASE}/priorityclasses/normal").status_code == 409
