"""What operators ask: does every promise hold; which side effects were given up; try them again."""

import json

import pytest
from msgspec.structs import replace
from sqlalchemy import select
from starlette.testclient import TestClient

from api.services import Services
from api.settings import Settings
from controller.state import tables
from controller.state.limits import OUTBOX_TRIES
from muster.clock import ManualClock, iso
from tests.makers import make_job, make_node

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


def lines(answer) -> list[dict[str, object]]:
    assert answer.headers["content-type"] == "application/jsonl"
    return [json.loads(line) for line in answer.text.splitlines()]


def test_every_write_is_in_the_audit_trail_with_who_asked_and_what_changed(admin: TestClient) -> None:
    manifest = {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"command": ["true"]}}
    made = admin.post("/api/v1/namespaces/default/jobs", json=manifest, headers={"X-Request-Id": "r-1"})
    assert made.status_code == 201
    admin.post("/api/v1/namespaces/default/jobs/a/suspend")
    admin.get("/api/v1/jobs")
    admin.post("/api/v1/namespaces/default/jobs/b/suspend")
    created, suspended, refused = (
        lines(admin.get("/api/v1/admin/audit", params={"namespace": "default"}))
        + lines(admin.get("/api/v1/admin/audit", params={"namespace": ""}))[-1:]
    )
    assert (created["actor"], created["requestId"], created["verb"], created["kind"], created["name"]) == (
        "admin",
        "r-1",
        "create",
        "Job",
        "a",
    )
    assert created["change"]["spec"]["command"] == ["true"]
    assert (suspended["verb"], suspended["change"]["suspend"], suspended["outcome"]) == ("update", True, "done")
    assert (refused["verb"], refused["name"], refused["outcome"]) == (
        "POST",
        "/api/v1/namespaces/default/jobs/b/suspend",
        "404",
    )


def test_the_manifests_of_a_list_are_kept_once_and_shown_with_each(admin: TestClient, here: Services) -> None:
    items = [{"metadata": {"name": f"j-{n}"}, "spec": {"command": [word]}} for n, word in enumerate("xyxxy")]
    made = admin.post(
        "/api/v1/namespaces/default/jobs", json={"apiVersion": "muster.dev/v1", "kind": "JobList", "items": items}
    )
    assert made.status_code == 207
    shown = lines(admin.get("/api/v1/admin/audit", params={"namespace": "default"}))
    assert {one["name"]: one["change"]["spec"]["command"] for one in shown} == {
        f"j-{n}": [word] for n, word in enumerate("xyxxy")
    }
    with here.store._engine.connect() as connection:
        kept = connection.execute(select(tables.audit.c.change).where(tables.audit.c.kind == "Job")).scalars().all()
    assert sum("spec" in change for change in kept) == 2
    assert len(here.store.audit(limit=1)[0].change["spec"]) > 1, "also where the other entry is on another page"


def test_a_token_that_may_not_write_leaves_a_trace(admin: TestClient, settings: Settings) -> None:
    token = settings.agent_token_file.read_text().strip()
    assert admin.delete("/api/v1/queues/x", headers={"Authorization": f"Bearer {token}"}).status_code == 403
    (entry,) = lines(admin.get("/api/v1/admin/audit", params={"actor": "agent"}))
    assert (entry["verb"], entry["outcome"], entry["role"]) == ("DELETE", "403", "agent")


def test_the_trail_is_read_by_its_time(admin: TestClient, clock: ManualClock) -> None:
    for name in ("early", "late"):
        admin.post("/api/v1/queues", json={"apiVersion": "muster.dev/v1", "kind": "Queue", "metadata": {"name": name}})
        clock.advance(60)
    between = iso(clock.now() - 90)
    names = {
        word: [one["name"] for one in lines(admin.get("/api/v1/admin/audit", params={word: between}))]
        for word in ("since", "until")
    }
    assert names == {"since": ["late"], "until": ["early"]}
    assert admin.get("/api/v1/admin/audit", params={"since": "yesterday"}).status_code == 422


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


def test_a_hold_does_not_end_while_a_silent_node_may_still_run_what_would_be_started_again(
    admin: TestClient, here: Services, clock: ManualClock
) -> None:
    with here.store.write() as w:
        w.put_node(make_node("heard"))
        w.put_node(make_node("silent"))
        w.insert_job(make_job("own", spec={"recovery": {"fenceAfter": "10m"}}))
        w.put_cluster(replace(w.cluster(), held_since=clock.now(), held_why="restored"), before=w.cluster().incarnation)
    clock.advance(1.0)
    here.store.transact(lambda w: w.renew_leases([("heard", "boot")]))
    path = "/api/v1/admin/rebuild?action=discard"
    refused = admin.post(path)
    assert (refused.status_code, refused.json()["code"]) == (409, "SILENT_NODES")
    assert refused.json()["detail"].startswith("silent: not heard from since")
    assert admin.get("/api/v1/admin/rebuild").json()["hold"]
    clock.advance(599.5)
    assert admin.post(path).status_code == 409, "its shims may be as late as the margin says"
    clock.advance(here.settings.lease.margin)
    assert admin.post(path).json()["hold"] == ""


def test_who_knows_that_a_silent_node_is_off_says_so(admin: TestClient, here: Services, clock: ManualClock) -> None:
    with here.store.write() as w:
        w.put_node(make_node("silent"))
        w.insert_job(make_job("own", spec={"recovery": {"fenceAfter": "never"}}))
        w.put_cluster(replace(w.cluster(), held_since=clock.now(), held_why="restored"), before=w.cluster().incarnation)
    clock.advance(1e6)
    assert admin.post("/api/v1/admin/rebuild?action=discard").status_code == 409
    assert admin.post("/api/v1/admin/rebuild?action=discard&withoutSilent=true").json()["hold"] == ""
