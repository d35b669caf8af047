"""Why a job waits and when it starts, as the API tells it."""

import msgspec
import pytest
from starlette.testclient import TestClient

from api.forecasts import accuracy
from api.services import Services
from controller.records import Waited
from controller.simulation.types import Basis, Eta, Forecast
from controller.state import Prediction, StoredForecast
from muster.clock import ManualClock, iso
from muster.reasons import WAITS, Waiting
from tests.api.conftest import JOBS, manifest


def waiting(admin: TestClient, here: Services, name: str = "train") -> str:
    uid: str = admin.post(JOBS, json=manifest(name)).json()["metadata"]["uid"]
    wait = Waited(
        code=Waiting.QUOTA, message="8 > 4", others=(Waiting.CAPACITY,), helps=("ask",), numbers={"h100.free": 3}
    )
    here.write(lambda w: w.patch_job(uid, reason="QUOTA", message="8 > 4; ask", wait=wait))
    return uid


def foretell(here: Services, *etas: Eta, at: float) -> None:
    body = msgspec.json.encode(Forecast(revision=7, now=at, etas=etas)).decode()
    here.store.forecasts.put(StoredForecast(maker="m", revision=7, made_at=at, checked_at=at, seconds=0.1, body=body))


def test_the_reason_with_its_numbers_and_the_start_with_its_basis(
    admin: TestClient, here: Services, clock: ManualClock
) -> None:
    uid, now = waiting(admin, here), clock.now()
    assert admin.get(f"{JOBS}/train/why").json()["status"]["eta"] is None
    foretell(here, Eta(job_uid=uid, at=now + 60, basis=Basis.LIMITS), at=now)
    clock.advance(3.0)
    said = admin.get(f"{JOBS}/train/why").json()
    assert (said["kind"], said["metadata"]["name"]) == ("Why", "train")
    status = said["status"]
    assert (status["code"], status["message"], status["numbers"]) == ("QUOTA", "8 > 4", {"h100.free": 3})
    assert [one["code"] for one in status["others"]] == ["CAPACITY"]
    assert status["helps"] == ["ask", WAITS[Waiting.QUOTA].helps]
    assert status["eta"] == {
        "at": iso(now + 60),
        "bound": False,
        "basis": "limits",
        "note": "",
        "position": 1,
        "waiting": 1,
        "revision": "7",
        "madeAt": iso(now),
        "ageSeconds": 3.0,
    }
    assert admin.get(JOBS).json()["items"][0]["status"]["eta"] == status["eta"]
    foretell(here, Eta(job_uid=uid, at=None, basis=Basis.NONE, note="a job has no limit"), at=now + 3)
    assert admin.get(f"{JOBS}/train").json()["status"]["eta"]["at"] is None


def test_jobs_that_do_not_wait_say_so(admin: TestClient, here: Services) -> None:
    uid = waiting(admin, here)
    here.write(lambda w: w.move_job(uid, "Suspended", reason="ByUser", message="suspended by its user"))
    status = admin.get(f"{JOBS}/train/why").json()["status"]
    assert (status["code"], status["helps"]) == ("SUSPENDED", ["muster resume train"])
    here.write(lambda w: w.move_job(uid, "Cancelled", reason="", message="cancelled"))
    status = admin.get(f"{JOBS}/train/why").json()["status"]
    assert (status["code"], status["message"], status["eta"]) == (None, "cancelled", None)
    assert admin.get(f"{JOBS}/other/why").status_code == 404


def test_how_good_predictions_were_is_told_of_each_queue(admin: TestClient, here: Services) -> None:
    said = [
        Prediction(job_uid=f"j{n}", made_at=0.0, queue="default", predicted=100.0, basis="limits", started_at=100.0 + n)
        for n in range(1, 11)
    ]
    here.store.forecasts.predict(said)
    told = admin.get("/api/v1/queues/default").json()["status"]["etaAccuracy"]
    assert told == {"starts": 10, "p50ErrorSeconds": 5.0, "p90ErrorSeconds": 9.0}
    assert accuracy(said, "other")["starts"] == 0
    text = admin.get("/metrics").text
    assert 'muster_eta_error_seconds{quantile="0.9"} 9.0' in text
    assert "muster_eta_starts 10.0" in text


@pytest.mark.parametrize("code", list(Waiting))
def test_every_code_has_a_meaning_and_something_that_helps(code: Waiting) -> None:
    assert all(WAITS[code])
