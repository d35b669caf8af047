"""Dependencies and arrays at the API's door."""

from starlette.testclient import TestClient

from api.services import Services
from controller.acts.arrays import write_array
from muster.states import JobPhase
from tests.api.conftest import JOBS, manifest


def test_a_circle_is_refused_with_its_names(admin: TestClient) -> None:
    assert admin.post(JOBS, json=manifest("a", after=[{"job": "c"}])).status_code == 201
    assert admin.post(JOBS, json=manifest("b", after=[{"job": "a"}])).status_code == 201
    refused = admin.post(JOBS, json=manifest("c", after=[{"job": "b"}]))
    assert refused.status_code == 422
    assert "c -> b -> a -> c" in refused.json()["detail"]
    assert "x -> x" in admin.post(JOBS, json=manifest("x", after=[{"job": "x"}])).json()["detail"]
    made = admin.put(f"{JOBS}/c", json=manifest("c"))
    assert made.status_code == 201
    closed = admin.put(f"{JOBS}/c", json=manifest("c", after=[{"job": "b"}]))
    assert (closed.status_code, "c -> b -> a -> c" in closed.json()["detail"]) == (422, True)


def test_a_job_that_does_not_exist_yet_is_warned_of_but_not_in_one_list(admin: TestClient) -> None:
    answer = admin.post(JOBS, json=manifest("b", after=[{"job": "a"}])).json()
    assert any("there is no job a in namespace default yet" in one for one in answer["status"]["warnings"])
    assert answer["status"]["dependencies"] == [{"job": "a", "condition": "succeeded", "met": False, "phase": ""}]
    batch = {
        "apiVersion": "muster.dev/v1",
        "kind": "JobList",
        "items": [manifest("first"), manifest("second", after=[{"job": "first"}])],
    }
    second = admin.post(JOBS, json=batch).json()["items"][1]
    assert not any("DEPENDENCY" in one for one in second["object"]["status"]["warnings"])


def test_an_array_is_shown_with_its_elements_and_goes_with_them(admin: TestClient, here: Services) -> None:
    array = admin.post(JOBS, json=manifest("sweep", array={"indices": "0-2"})).json()
    uid = array["metadata"]["uid"]
    assert array["status"]["elements"] == {"total": 3, "made": 0, "phases": {}}
    here.write(lambda w: write_array(w, uid, now=1.0, new_id=here.new_id))
    shown = admin.get(f"{JOBS}/sweep").json()
    assert shown["status"]["elements"] == {"total": 3, "made": 3, "phases": {"Queued": 3}}
    assert admin.get(f"{JOBS}/sweep-1").json()["metadata"]["labels"]["muster.dev/array"] == "sweep"
    assert "its elements have them, e.g. sweep-0" in admin.get(f"{JOBS}/sweep/logs?follow=1").json()["detail"]
    assert "is an array" in admin.post(f"{JOBS}/sweep/restart").json()["detail"]
    limited = admin.put(f"{JOBS}/sweep", json=manifest("sweep", array={"indices": "0-2", "parallelism": 1}))
    assert limited.headers["muster-result"] == "configured"
    assert admin.put(f"{JOBS}/sweep", json=manifest("sweep", array={"indices": "0-3"})).status_code == 409

    def cancel(w) -> None:  # type: ignore[no-untyped-def]
        w.patch_job(uid, cancel=True)
        w.move_job(w.job_named("default", "sweep-1").uid, JobPhase.CANCELLED)

    here.write(cancel)
    assert admin.delete(f"{JOBS}/sweep-1").status_code == 409
    here.write(lambda w: [w.move_job(one.uid, JobPhase.CANCELLED) for one in w.live_elements(uid)])
    here.write(lambda w: write_array(w, uid, now=2.0, new_id=here.new_id))
    assert admin.get(f"{JOBS}/sweep").json()["status"]["phase"] == "Cancelled"
    assert admin.delete(f"{JOBS}/sweep").status_code == 200
    assert admin.get(f"{JOBS}/sweep-0").status_code == 404


def test_names_of_elements_must_be_free_and_short_enough(admin: TestClient) -> None:
    admin.post(JOBS, json=manifest("grid-1"))
    taken = admin.post(JOBS, json=manifest("grid", array={"matrix": {"A": ["x", "y"]}}))
    assert (taken.status_code, "grid-1" in taken.json()["detail"]) == (409, True)
    long = admin.post(JOBS, json=manifest("a" * 61, array={"indices": "0-99"}))
    assert (long.status_code, "too long for an array" in long.json()["detail"]) == (422, True)
