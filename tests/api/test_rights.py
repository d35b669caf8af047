"""Who may do what: every route there is, by every role, in its own namespace and in another one."""

import re

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from api import rights
from api.rights import PEOPLE, RULES, needed, refusal
from api.services import Services
from muster.clock import ManualClock
from tests.api.conftest import JOBS, manifest

OPERATORS = [
    ("POST", "/api/v1/nodes/{name}/{wish}"), ("POST", "/api/v1/nodes/{name}/drain"), ("PUT", "/api/v1/nodes/{name}/taints"),
    ("POST", "/api/v1/queues"), ("PUT", "/api/v1/queues/{name}"), ("DELETE", "/api/v1/queues/{name}"), ("GET", "/api/v1/admin/audit"),
]  # fmt: skip


def routes(app: FastAPI) -> list[tuple[str, str]]:
    """Of people: (method, path)."""
    paths = app.openapi()["paths"]
    found = [
        (method.upper(), path) for path, methods in paths.items() for method in methods if path.startswith("/api/v1")
    ]
    return sorted(one for one in found if not one[1].startswith("/api/v1/self"))


def filled(path: str, namespace: str) -> str:
    path = path.replace("{namespace}", namespace)
    return re.sub(r"\{\w+\}", "x", path)


def expected(method: str, path: str) -> str:
    """The role that an address should need, told another way than the table tells it."""
    if path.startswith(("/api/v1/tokens", "/api/v1/admin")) and path != "/api/v1/admin/audit":
        return "admin"
    if (method, path) in OPERATORS or path == "/api/v1/admin/audit":
        return "operator"
    if method == "GET" or path in ("/api/v1/whatif", "/api/v1/access"):
        return "viewer"
    return "submitter" if path.startswith("/api/v1/namespaces/{namespace}/jobs") else "operator"


def test_every_route_has_a_rule_and_it_is_the_one_that_it_should_have(app: FastAPI) -> None:
    for method, path in routes(app):
        rule = needed(method, filled(path, "own"))
        assert rule is not None, (method, path)
        assert rule.role == expected(method, path), (method, path)


@pytest.mark.parametrize("role", PEOPLE)
def test_the_matrix_of_roles_routes_and_namespaces(app: FastAPI, role: str) -> None:
    for method, path in routes(app):
        enough = PEOPLE.index(role) >= PEOPLE.index(expected(method, path))
        assert (refusal(role, "", method, filled(path, "own")) is None) == enough, (method, path)
        if role in ("operator", "admin"):
            continue  # these are of the whole cluster
        own, other = (refusal(role, "own", method, filled(path, where)) for where in ("own", "other"))
        if "{namespace}" in path:
            assert (own is None) == enough, (method, path)
            assert other is not None, (method, path)
        else:
            shared = any(rule.shared and rule is needed(method, filled(path, "own")) for rule in RULES)
            assert (own is None) == (enough and shared and method == "GET"), (method, path)


def make(admin: TestClient, **asked: str) -> dict[str, str]:
    answer = admin.post("/api/v1/tokens", json=asked)
    assert answer.status_code == 201, answer.text
    made: dict[str, str] = answer.json()
    return made


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


class TestTokens:
    def test_one_is_shown_once_and_kept_as_a_hash(self, admin: TestClient, here: Services) -> None:
        made = make(admin, role="viewer", name="ann")
        listed = admin.get("/api/v1/tokens").json()["items"]
        assert {one["name"] for one in listed} == {"admin", "agent", "ann"}
        assert all("token" not in one for one in listed)
        with here.store.read() as r:
            assert made["token"] not in str(r.tokens())
        entries = admin.get("/api/v1/admin/audit").text
        assert '"kind":"Token","name":"viewer ann"' in entries
        assert made["token"] not in entries

    def test_each_role_reaches_what_it_may(self, admin: TestClient, anybody: TestClient) -> None:
        tokens = {role: bearer(make(admin, role=role)["token"]) for role in PEOPLE}
        reached = {
            role: (
                anybody.get("/api/v1/jobs", headers=headers).status_code,
                anybody.post(JOBS, json=manifest(f"of-{role}"), headers=headers).status_code,
                anybody.post("/api/v1/queues", json={}, headers=headers).status_code,
                anybody.get("/api/v1/tokens", headers=headers).status_code,
            )
            for role, headers in tokens.items()
        }
        assert reached == {
            "viewer": (200, 403, 403, 403),
            "submitter": (200, 201, 403, 403),
            "operator": (200, 201, 422, 403),
            "admin": (200, 201, 422, 200),
        }
        told = anybody.post(JOBS, json=manifest("x"), headers=tokens["viewer"]).json()
        assert told["detail"] == "this needs the role submitter; this token has the role viewer"

    def test_one_of_a_namespace_reaches_that_alone(self, admin: TestClient, anybody: TestClient) -> None:
        mine = bearer(make(admin, role="submitter", namespace="vision")["token"])
        there = "/api/v1/namespaces/vision/jobs"
        job = manifest("a") | {"metadata": {"name": "a", "namespace": "vision"}}
        assert anybody.post(there, json=job, headers=mine).status_code == 201
        assert anybody.get(there, headers=mine).status_code == 200
        assert anybody.get("/api/v1/nodes", headers=mine).status_code == 200
        for path in ("/api/v1/jobs", JOBS, "/api/v1/events", "/api/v1/changes", "/api/v1/summary"):
            assert anybody.get(path, headers=mine).status_code == 403, path
        assert admin.post("/api/v1/tokens", json={"role": "operator", "namespace": "vision"}).status_code == 422

    def test_it_expires_and_can_be_revoked(self, admin: TestClient, anybody: TestClient, clock: ManualClock) -> None:
        short = bearer(make(admin, role="viewer", expires="1h")["token"])
        long = make(admin, role="viewer", name="bob")
        assert anybody.get("/api/v1/whoami", headers=short).json()["role"] == "viewer"
        clock.advance(3601)
        answer = anybody.get("/api/v1/whoami", headers=short)
        assert (answer.status_code, answer.json()["detail"]) == (401, "this token has expired")
        assert anybody.get("/api/v1/whoami", headers=bearer(long["token"])).json()["name"] == "bob"
        used = next(one for one in admin.get("/api/v1/tokens").json()["items"] if one["name"] == "bob")
        assert used["lastUsedAt"] is not None
        assert admin.delete("/api/v1/tokens/bob").status_code == 200
        assert anybody.get("/api/v1/whoami", headers=bearer(long["token"])).status_code == 401
        assert admin.delete("/api/v1/tokens/bob").status_code == 404
        assert admin.delete("/api/v1/tokens/admin").status_code == 409

    def test_it_is_told_what_it_may(self, admin: TestClient, anybody: TestClient) -> None:
        mine = bearer(make(admin, role="submitter", namespace="vision")["token"])
        ask = {"method": "POST", "address": "/api/v1/namespaces/vision/jobs"}
        assert anybody.get("/api/v1/access", params=ask, headers=mine).json() == {"allowed": True, "why": ""}
        ask["address"] = "/api/v1/nodes/n1/drain"
        found = anybody.get("/api/v1/access", params=ask, headers=mine).json()
        assert not found["allowed"]
        assert "whole cluster" in found["why"] or "not in it" in found["why"]

    @pytest.mark.parametrize(
        "asked",
        [
            {},
            {"role": "king"},
            {"role": "viewer", "expires": "soon"},
            {"role": "viewer", "namespace": "Not OK"},
            {"role": "viewer", "x": 1},
        ],
    )
    def test_nonsense_is_refused(self, admin: TestClient, asked: dict[str, object]) -> None:
        assert admin.post("/api/v1/tokens", json=asked).status_code == 422


def test_an_agents_token_opens_no_door_of_people(admin: TestClient, anybody: TestClient) -> None:
    agent = bearer(make(admin, role="agent", name="rack-1")["token"])
    for path in ("/api/v1/jobs", "/api/v1/tokens", "/api/v1/whoami", "/api/v1/self"):
        assert anybody.get(path, headers=agent).status_code == 403, path


def test_paths_that_only_look_like_a_namespace_are_not_in_it() -> None:
    for path in (
        "/api/v1/namespaces/visionary/jobs",
        "/api/v1/namespaces/other/jobs/vision",
        "/api/v1//namespaces/vision/jobs",
    ):
        assert refusal("submitter", "vision", "GET", path) is not None
    assert rights.namespace_of("/api/v1/namespaces/vision/jobs/a") == "vision"
