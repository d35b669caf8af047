"""Whatever is refused, by whomever, is a problem document that says what to do."""

from typing import Any

import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from api.middleware import BODY_LIMIT
from api.services import Services
from controller.state import StoreUnavailable
from tests.api.conftest import JOBS, manifest

JSON = {"content-type": "application/json"}

REFUSALS: list[tuple[str, str, str, dict[str, Any], int, str, str]] = [
    ("an unknown address", "GET", "/api/v1/nope", {}, 404, "NOT_FOUND", "nothing at /api/v1/nope"),
    ("an unknown address outside", "GET", "/nope", {}, 404, "NOT_FOUND", "nothing at /nope"),
    ("a wrong method", "PATCH", JOBS, {}, 405, "METHOD_NOT_ALLOWED", "Allow"),
    ("an unknown job", "GET", f"{JOBS}/nope", {}, 404, "NOT_FOUND", "no job 'nope' in namespace default"),
    ("an unknown node", "GET", "/api/v1/nodes/nope", {}, 404, "NOT_FOUND", "no node 'nope'"),
    ("an unknown queue", "GET", "/api/v1/queues/nope", {}, 404, "NOT_FOUND", "no queue 'nope'"),
    ("an unknown wish", "POST", f"{JOBS}/a/explode", {}, 422, "INVALID", "path.wish"),
    ("no body", "POST", JOBS, {}, 415, "UNSUPPORTED_MEDIA_TYPE", "application/json"),
    ("a form", "POST", JOBS, {"data": {"a": "b"}}, 415, "UNSUPPORTED_MEDIA_TYPE", "x-www-form-urlencoded"),
    ("broken JSON", "POST", JOBS, {"content": b'{"a": 1,\n  b}', "headers": JSON}, 400, "MALFORMED_JSON", "line 2"),
    ("not UTF-8", "POST", JOBS, {"content": b'"\xff"', "headers": JSON}, 400, "MALFORMED_JSON", "UTF-8"),
    ("deep JSON", "POST", JOBS, {"content": b"[" * 99_999, "headers": JSON}, 400, "MALFORMED_JSON", ""),
    ("a list", "POST", JOBS, {"json": []}, 422, "INVALID", "expected a mapping"),
    ("another kind", "POST", JOBS, {"json": manifest() | {"kind": "Jbo"}}, 422, "INVALID", 'did you mean "Job"'),
    ("an unknown field", "POST", JOBS, {"json": manifest(wokers=2)}, 422, "INVALID", 'did you mean "workers"'),
    ("a wrong number", "POST", JOBS, {"json": manifest(workers=0)}, 422, "INVALID", "spec.workers"),
    ("a huge number", "POST", JOBS, {"json": manifest(workers=10**30)}, 422, "INVALID", "spec.workers"),
    ("a queue as a job", "POST", "/api/v1/queues", {"json": manifest()}, 422, "INVALID", "expected a Queue here"),
    ("another namespace", "POST", JOBS, {"json": manifest(metadata={"namespace": "b"})}, 422, "INVALID", "default"),
    ("another name", "PUT", f"{JOBS}/b", {"json": manifest("a")}, 422, "INVALID", "metadata.name"),
    ("a bad namespace", "POST", "/api/v1/namespaces/A_b/jobs", {"json": manifest()}, 422, "INVALID", "namespace"),
    ("a bad limit", "GET", f"{JOBS}?limit=0", {}, 422, "INVALID", "query.limit"),
    ("a bad phase", "GET", f"{JOBS}?phase=Dead", {}, 422, "INVALID", "query.phase"),
    ("a bad selector", "GET", f"{JOBS}?labelSelector=a", {}, 422, "INVALID", "label=value"),
    ("a mistyped parameter", "GET", f"{JOBS}?labelselector=a=b", {}, 400, "UNKNOWN_PARAMETER", 'did you mean "labelSelector"'),
    ("an unknown parameter", "POST", f"{JOBS}?verbose=1", {"json": manifest()}, 400, "UNKNOWN_PARAMETER", "query.verbose"),
    ("a field that cannot select", "GET", f"{JOBS}?fieldSelector=status.phse=Running", {}, 422, "INVALID", 'did you mean "status.phase"'),
    ("a phase that there is not", "GET", f"{JOBS}?fieldSelector=status.phase=runing", {}, 422, "INVALID", 'did you mean "Running"'),
    ("a watch beyond 64 bits", "GET", f"/api/v1/changes?after={10**19}", {}, 422, "INVALID", "query.after"),
    ("an event id beyond 64 bits", "GET", "/api/v1/changes", {"headers": {"last-event-id": "9" * 30}}, 422, "INVALID", "revision"),
    ("a bad page", "GET", f"{JOBS}?continue=zzz", {}, 422, "INVALID", "query.continue"),
    ("a revision beyond 64 bits", "GET", f"/api/v1/events?after={10**30}", {}, 422, "INVALID", ""),
    ("a watch from the future", "GET", "/api/v1/changes?after=99999", {}, 410, "TOO_OLD", "99999"),
    ("a bad event id", "GET", "/api/v1/changes", {"headers": {"last-event-id": "x"}}, 422, "INVALID", "revision"),
    ("a bad rank", "GET", f"{JOBS}/a/logs?rank=first", {}, 422, "INVALID", "query.rank"),
    ("an empty key", "POST", JOBS, {"json": manifest(), "headers": {"idempotency-key": ""}}, 400, "BAD_IDEMPOTENCY_KEY", "255"),
    ("the default queue's end", "DELETE", "/api/v1/queues/default", {}, 409, "CONFLICT", "stays"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "how", "status", "code", "words"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])  # fmt: skip
def test_a_refusal_is_a_problem_document(
    admin: TestClient, method: str, path: str, how: dict[str, Any], status: int, code: str, words: str
) -> None:
    answer = admin.request(method, path, **how)
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["code"]) == (status, status, code), problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["type"].startswith("https://muster.dev/problems/")
    assert problem["requestId"] == answer.headers["x-request-id"]
    assert words in problem["detail"]


def test_a_wrong_method_says_which_are_right(admin: TestClient) -> None:
    assert set(admin.patch(JOBS).headers["allow"].split(", ")) & {"GET", "POST"}


def test_every_finding_of_a_manifest_is_told_at_once(admin: TestClient) -> None:
    bad = manifest(queue="defualt", priorityClass="hgih", accelerators=[{"type": "h10", "count": 1}], topology={"required": "lef", "preferred": "blokc"})  # fmt: skip
    errors = {one["field"]: one for one in admin.post(JOBS, json=bad).json()["errors"]}
    assert {field: one.get("suggestion") for field, one in errors.items()} == {
        "spec.queue": "default",
        "spec.priorityClass": "high",
        "spec.accelerators[0].type": "h100",
        "spec.topology.required": "leaf",
        "spec.topology.preferred": "block",
    }
    assert errors["spec.topology.required"]["allowed"] == ["block", "leaf", "node"]


def test_an_unknown_level_alone_is_an_invalid_topology(admin: TestClient) -> None:
    problem = admin.post(JOBS, json=manifest(topology={"required": "rack"})).json()
    assert (problem["status"], problem["code"]) == (422, "INVALID_TOPOLOGY")


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "in chunks"])
def test_a_body_above_the_limit_is_refused(admin: TestClient, announced: bool) -> None:
    body = b" " * (BODY_LIMIT + 1)
    content = body if announced else iter([body[:1000], body[1000:]])
    answer = admin.post(JOBS, content=content, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "TOO_LARGE")


def test_a_body_at_the_limit_is_read(admin: TestClient) -> None:
    answer = admin.post(JOBS, content=b" " * BODY_LIMIT, headers=JSON)
    assert answer.json()["code"] == "MALFORMED_JSON"


def test_a_fault_of_ours_shows_an_id_and_no_more(admin: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("the secret inner state")

    monkeypatch.setattr("api.show.jobs", broken)
    with capture_logs() as lines:
        answer = admin.get(JOBS, headers={"x-request-id": "my-id"})
    assert (answer.status_code, answer.json()["code"]) == (500, "INTERNAL")
    assert answer.json()["requestId"] == "my-id"
    assert "secret inner state" not in answer.text
    (line,) = lines
    assert (line["request_id"], str(line["exc_info"])) == ("my-id", "the secret inner state")


def test_a_request_id_that_could_forge_log_lines_is_replaced(admin: TestClient) -> None:
    answer = admin.get(JOBS, headers={"x-request-id": "a b=c"})
    assert answer.headers["x-request-id"] != "a b=c"


def test_a_database_that_is_away_is_503_everywhere(
    admin: TestClient, here: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailable("disk I/O error at /var/lib/secret")

    monkeypatch.setattr(type(here.store), "read", away)
    monkeypatch.setattr(type(here.store), "transact", away)
    for method, path in (("GET", JOBS), ("GET", "/readyz"), ("POST", f"{JOBS}/a/suspend")):
        answer = admin.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (503, "UNAVAILABLE")
        assert answer.headers["retry-after"]
        assert "secret" not in answer.text
    assert admin.get("/healthz").status_code == 200
