"""Many jobs at once: in one list, and from many requests into one transaction."""

import itertools
import threading
from concurrent.futures import Future
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.app import create_app, prepare
from api.bulk import MOST
from api.intake import WORKERS
from api.requests import Once
from api.services import Services
from api.settings import Settings
from api.submission import manifest as job_of
from controller.state import BadValue, StoreUnavailable, Taken, Writer
from muster.problems import Problem
from tests.api.conftest import JOBS, manifest
from tests.makers import make_job


def listed(*items: Any, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "muster.dev/v1", "kind": "JobList", "items": list(items), **more}


def told(answer: Any) -> list[tuple[str, int, str]]:
    """Name, status and code of each item."""
    assert answer.status_code == 207, answer.text
    return [(one["name"], one["status"], (one["problem"] or {}).get("code", "")) for one in answer.json()["items"]]


class TestList:
    def test_jobs_that_share_their_spec_are_each_judged_for_what_is_their_own(self, admin: TestClient) -> None:
        spec = {"command": ["true"], "workers": 1, "suspend": True}
        saves = spec | {"checkpoint": {"directory": "/ckpt/same"}}
        items = [{"metadata": {"name": name, "labels": {"of": name}}, "spec": spec} for name in ("a", "b", "A", "b")]
        items += [{"metadata": {"name": name}, "spec": saves} for name in ("c", "d")]
        answer = admin.post(JOBS, json=listed(*items))
        assert told(answer) == [
            ("a", 201, ""),
            ("b", 201, ""),
            ("A", 422, "INVALID"),
            ("b", 409, "ALREADY_EXISTS"),
            ("c", 201, ""),
            ("d", 409, "CHECKPOINT_DIRECTORY_SHARED"),
        ]
        first, second, *_ = (one["object"] for one in answer.json()["items"])
        assert (first["metadata"]["labels"], second["metadata"]["labels"]) == ({"of": "a"}, {"of": "b"})
        assert first["metadata"]["uid"] != second["metadata"]["uid"]
        assert first["spec"] == second["spec"] == admin.get(f"{JOBS}/b").json()["spec"]

    def test_each_item_has_its_own_result_and_a_bad_one_harms_no_other(self, admin: TestClient) -> None:
        admin.post(JOBS, json=manifest("there"))
        checkpoint = {"directory": "/ckpt/x"}
        answer = admin.post(
            JOBS,
            json=listed(
                manifest("a", checkpoint=checkpoint),
                {"metadata": {"name": "bare"}, "spec": {"command": ["true"]}},
                manifest("there"),
                manifest("a"),
                manifest("bad", wokers=1),
                manifest("lost", queue="nope"),
                manifest("shares", checkpoint={"directory": "/ckpt//x/"}),
                manifest("far", metadata={"namespace": "other"}),
                7,
            ),
        )
        assert told(answer) == [
            ("a", 201, ""),
            ("bare", 201, ""),
            ("there", 409, "ALREADY_EXISTS"),
            ("a", 409, "ALREADY_EXISTS"),
            ("bad", 422, "INVALID"),
            ("lost", 422, "INVALID"),
            ("shares", 409, "CHECKPOINT_DIRECTORY_SHARED"),
            ("far", 422, "INVALID"),
            ("", 422, "INVALID"),
        ]
        first = answer.json()["items"][0]["object"]
        found = admin.get(f"{JOBS}/a").json()
        assert found["metadata"].pop("number") > 0
        assert found == first
        assert answer.json()["items"][4]["problem"]["errors"][0]["suggestion"] == "workers"

    def test_it_is_in_the_change_log_like_any_job_without_a_gap(self, admin: TestClient, here: Services) -> None:
        admin.post(JOBS, json=listed(*(manifest(f"j{n}") for n in range(3))))
        with here.store.read() as r:
            changes = [one for one in r.changes(0) if one.kind in ("Job", "Event")]
            jobs = {job.name: job.revision for job in r.jobs()}
        assert [one.revision for one in changes] == list(range(changes[0].revision, changes[0].revision + 9))
        assert jobs == {one.name: one.revision for one in changes if one.kind == "Job"}

    def test_a_dry_run_judges_all_of_it_and_writes_nothing(self, admin: TestClient) -> None:
        answer = admin.post(f"{JOBS}?dryRun=true", json=listed(manifest("a"), manifest("a"), manifest("b", queue="no")))
        assert [status for _, status, _ in told(answer)] == [201, 409, 422]
        assert admin.get(JOBS).json()["items"] == []

    def test_a_repeat_with_the_same_key_gets_the_same_results(self, admin: TestClient) -> None:
        key, body = {"idempotency-key": "k1"}, listed(manifest("a"), manifest("b", queue="nope"), manifest("c"))
        first, again = admin.post(JOBS, json=body, headers=key), admin.post(JOBS, json=body, headers=key)
        assert told(first) == told(again) == [("a", 201, ""), ("b", 422, "INVALID"), ("c", 201, "")]
        assert [one["object"] and one["object"]["metadata"]["uid"] for one in first.json()["items"]] == [
            one["object"] and one["object"]["metadata"]["uid"] for one in again.json()["items"]
        ]
        other = admin.post(JOBS, json=listed(manifest("d")), headers=key)
        assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")

    @pytest.mark.parametrize(
        ("document", "words"),
        [
            (listed(), "at least one Job"),
            (listed(*[{}] * (MOST + 1)), f"at most {MOST}"),
            (listed(manifest(), iterms=[]), "iterms"),
            ({"kind": "JobList", "items": [manifest()]}, "apiVersion"),
        ],
    )
    def test_a_list_that_is_none_is_refused_whole(self, admin: TestClient, document: Any, words: str) -> None:
        answer = admin.post(JOBS, json=document)
        assert (answer.status_code, answer.json()["code"]) == (422, "INVALID")
        assert words in answer.json()["detail"]

    def test_the_openapi_document_has_both_forms(self, admin: TestClient) -> None:
        document = admin.get("/openapi.json").json()
        operation = document["paths"]["/api/v1/namespaces/{namespace}/jobs"]["post"]
        refs = [one["$ref"] for one in operation["requestBody"]["content"]["application/json"]["schema"]["oneOf"]]
        assert refs == ["#/components/schemas/Job", "#/components/schemas/JobList"]
        assert set(operation["responses"]) >= {"201", "207"}
        assert document["components"]["schemas"]["JobList"]["properties"]["items"]["maxItems"] == MOST


class TestTogether:
    """Requests that wait while another transaction commits."""

    def gathered(self, here: Services, *requests: tuple[Any, Once | None]) -> list[Future[Any]]:
        """Answers of requests that surely go into one transaction, as far as they may."""
        holding, begun = threading.Event(), threading.Barrier(WORKERS + 1)
        for _ in range(WORKERS):
            here.intake._pool.submit(lambda: (begun.wait(30), holding.wait(30)))
        begun.wait(30)
        added = [here.intake.add([job_of(one, "default")], "ann", once=once) for one, once in requests]
        holding.set()
        return added

    def test_of_one_name_one_gets_it_and_all_others_theirs(self, admin: TestClient, here: Services) -> None:
        answers = self.gathered(here, (manifest("a"), None), (manifest("a"), None), (manifest("b"), None))
        (first,), (second,), (third,) = (one.result(30) for one in answers)
        assert (first["metadata"]["name"], second.code, third["metadata"]["name"]) == ("a", "ALREADY_EXISTS", "b")

    def test_a_repeat_that_comes_at_once_sees_the_first(self, admin: TestClient, here: Services) -> None:
        once = Once("key", "hash")
        answers = self.gathered(here, (manifest("a"), once), (manifest("a"), once), (manifest("b"), Once("key", "x")))
        (first,), (second,) = (one.result(30) for one in answers[:2])
        assert first["metadata"]["uid"] == second["metadata"]["uid"]
        with pytest.raises(Problem, match="used for another request"):
            answers[2].result(30)

    def test_what_spoils_the_transaction_spoils_it_for_its_request_alone(
        self, admin: TestClient, here: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = Writer.insert_jobs

        def picky(w: Writer, records: Any) -> None:
            if any(one.name == "poison" for one in records):
                raise BadValue("a number is too large")
            real(w, records)

        monkeypatch.setattr(Writer, "insert_jobs", picky)
        answers = self.gathered(here, (manifest("a"), None), (manifest("poison"), None), (manifest("b"), None))
        assert [answers[n].result(30)[0]["metadata"]["name"] for n in (0, 2)] == ["a", "b"]
        with pytest.raises(Problem, match="too large"):
            answers[1].result(30)

    def test_a_database_that_is_away_is_told_to_all(
        self, admin: TestClient, here: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(*_: object) -> None:
            raise StoreUnavailable("away")

        monkeypatch.setattr(type(here.store), "transact", away)
        for one in self.gathered(here, (manifest("a"), None), (manifest("b"), None)):
            with pytest.raises(StoreUnavailable):
                one.result(30)

    def test_who_loses_a_name_to_another_process_is_told_so(
        self, admin: TestClient, here: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, first = Writer.live_names, iter([{}])
        here.write(lambda w: w.insert_job(make_job(name="a")))
        monkeypatch.setattr(Writer, "live_names", lambda w, *args: next(first, None) or real(w, *args))
        answer = admin.post(JOBS, json=manifest("a"))
        assert (answer.status_code, answer.json()["code"]) == (409, "ALREADY_EXISTS")


def test_a_name_is_taken_only_at_the_commit(store: Any) -> None:
    with store.write() as w:
        w.insert_jobs([make_job("a", uid="u1", labels={"team": "nlp"}), make_job("b", uid="u2")])
    with pytest.raises(Taken), store.write() as w:
        w.insert_jobs([make_job("c", uid="u3"), make_job("a", uid="u4")])
    with store.read() as r:
        assert {job.name: job.revision for job in r.jobs()} == {"a": 1, "b": 2}
        assert r.revision() == 2
        assert [job.uid for job in r.jobs(labels={"team": "nlp"})] == ["u1"]


def test_the_client_sends_however_many_in_lists_that_the_server_takes(client: Any) -> None:
    long = {"LONG": "x" * 400_000}
    jobs = [manifest(f"j{n}", env=long) for n in range(3)] + [manifest("j0")]
    assert [(one["name"], one["status"]) for one in client.create_all(jobs)] == [
        ("j0", 201),
        ("j1", 201),
        ("j2", 201),
        ("j0", 409),
    ]


def test_of_two_processes_at_once_each_name_and_each_directory_goes_to_one(
    postgres_url: str, tmp_path: Any, clock: Any
) -> None:
    """Two APIs on one PostgreSQL, and requests of both in whatever transactions they come to lie."""
    sides = []
    for number in range(2):
        files = {f"{name}_file": tmp_path / name for name in ("admin_token", "agent_token", "secret")}
        settings = Settings(database_url=postgres_url, log_store=tmp_path / "logs", **files)
        numbers = itertools.count()
        app = create_app(settings, clock=clock, new_id=lambda n=number, i=numbers: f"{n}-{next(i)}")  # type: ignore[misc]
        prepare(app.state.services)
        sides.append(app.state.services)
    asked = [
        [side.intake.add([job_of(one, "default")], "ann") for side in sides]
        for n in range(40)
        for one in [manifest(f"j{n}", checkpoint={"directory": f"/ckpt/{n // 2}"})]
    ]
    made = 0
    for pair in asked:
        results = [one for answer in pair for one in answer.result(60)]
        jobs = [one for one in results if not isinstance(one, Problem)]
        assert len(jobs) <= 1
        assert {one.code for one in results if isinstance(one, Problem)} <= {
            "ALREADY_EXISTS",
            "CHECKPOINT_DIRECTORY_SHARED",
        }
        made += len(jobs)
    with sides[0].store.read() as r:
        assert len(r.jobs()) == made == 20
        changes = r.changes(0)
        assert [one.revision for one in changes] == list(range(1, r.revision() + 1))
    for side in sides:
        side.intake.close()
        side.store.close()
