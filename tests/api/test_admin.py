"""What operators ask: does every promise hold; which side effects were given up; try them again."""

import pytest
from starlette.testclient import TestClient

from api.services import Services
from controller.state.limits import OUTBOX_TRIES
from tests.makers import make_job

OUTBOX = "/api/v1/admin/outbox"


@pytest.fixture
def dead(here: Services, admin: TestClient) -> str:
    """The id of an item that has failed for good."""
    here.write(lambda w: w.enqueue("webhook", {"url": "http://secret@nowhere"}, "key-1"))
    (item,) = here.store.outbox_due(here.clock.now())
    for _ in range(OUTBOX_TRIES):
        here.store.outbox_failed(item.id, "refused", here.clock.now())
    return item.id


def test_a_sound_cluster_passes_the_check(admin: TestClient, here: Services) -> None:
    here.write(lambda w: w.insert_job(make_job()))
    found = admin.get("/api/v1/admin/check").json()
    assert found["ok"] is True
    assert len(found["invariants"]) > 10
    assert not any(one["broken"] for one in found["invariants"])


def test_a_broken_promise_is_named_with_what_breaks_it(admin: TestClient, here: Services) -> None:
    here.write(lambda w: w.insert_job(make_job(phase="Running", attempt_uid="gone")))
    found = admin.get("/api/v1/admin/check").json()
    assert found["ok"] is False
    broken = {one["name"]: one["broken"] for one in found["invariants"] if one["broken"]}
    assert broken == {
        "jobs_that_run_have_an_attempt": ["job default/train is Running with attempt gone, which is not live"]
    }


def test_dead_letters_are_listed_without_their_payload(admin: TestClient, dead: str) -> None:
    answer = admin.get(OUTBOX)
    (item,) = answer.json()["items"]
    assert (item["id"], item["state"], item["tries"], item["error"]) == (dead, "dead", OUTBOX_TRIES, "refused")
    assert "secret" not in answer.text
    assert admin.get(OUTBOX, params={"state": "due"}).json()["items"] == []


def test_a_dead_letter_is_due_again_when_asked_and_only_once(admin: TestClient, here: Services, dead: str) -> None:
    assert admin.post(f"{OUTBOX}/{dead}/retry").json()["state"] == "due"
    assert [item.id for item in here.store.outbox_due(here.clock.now())] == [dead]
    assert admin.post(f"{OUTBOX}/{dead}/retry").status_code == 409
    assert here.store.outbox_failed(dead, "again", 0.0) is False


def test_an_item_that_is_not_there_is_404(admin: TestClient) -> None:
    assert admin.post(f"{OUTBOX}/nope/retry").status_code == 404


@pytest.mark.parametrize("path", ["/api/v1/admin/check", OUTBOX])
def test_agents_and_strangers_learn_nothing(anybody: TestClient, agent_headers: dict[str, str], path: str) -> None:
    assert anybody.get(path).status_code == 401
    assert anybody.get(path, headers=agent_headers).status_code == 403
