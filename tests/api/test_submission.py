"""Jobs come in, are read, changed, steered and removed."""

import threading
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.services import Services
from controller.state import Contended
from muster.clock import ManualClock, iso
from muster.states import JobPhase
from tests.api.conftest import JOBS, manifest
from tests.makers import make_attempt, make_node, make_worker


def submit(admin: TestClient, name: str = "train", **spec: Any) -> dict[str, Any]:
    answer = admin.post(JOBS, json=manifest(name, **spec))
    assert answer.status_code == 201, answer.text
    job: dict[str, Any] = answer.json()
    return job


def end(here: Services, name: str = "train", phase: JobPhase = JobPhase.CANCELLED) -> None:
    here.write(lambda w: w.move_job(w.job_named("default", name).uid, phase, finished_at=1.0))  # type: ignore[union-attr]


def reasons(admin: TestClient, name: str = "train") -> list[str]:
    return [event["reason"] for event in admin.get(f"{JOBS}/{name}/events").json()["items"]]


class TestSubmit:
    def test_a_job_is_queued_with_its_defaults_filled_in(self, admin: TestClient, clock: ManualClock) -> None:
        job = submit(admin, workers=2)
        assert job["metadata"]["namespace"] == "default"
        assert job["spec"]["queue"] == "default"
        assert job["spec"]["recovery"]["maxRestarts"] == 20
        assert job["status"] | {"warnings": []} == {
            "phase": "Queued",
            "reason": "",
            "message": "",
            "eta": None,
            "restarts": 0,
            "epoch": 0,
            "attempt": None,
            "progress": None,
            "workers": [],
            "queuedAt": iso(clock.now()),
            "startedAt": None,
            "finishedAt": None,
            "warnings": [],
        }
        found = admin.get(f"{JOBS}/train").json()
        assert found["metadata"].pop("number") > 0, "the database gives it"
        assert found == job

    def test_job_event_and_change_are_one_transaction(self, admin: TestClient, here: Services) -> None:
        with here.store.read() as r:
            before = r.revision()
        job = submit(admin)
        with here.store.read() as r:
            kinds = [(change.kind, change.name) for change in r.changes(before)]
        assert kinds[:2] == [("Job", "train"), ("Event", "train")]
        assert job["metadata"]["resourceVersion"] == str(before + 1)

    def test_others_are_told_only_after_the_commit(self, admin: TestClient, here: Services) -> None:
        seen: list[int] = []

        def on_hint() -> None:
            with here.store.read() as r:
                seen.append(len(r.jobs()))

        here.hints.listen(on_hint)
        submit(admin)
        assert seen[0] == 1

    def test_a_live_name_is_taken_and_a_finished_one_is_free(self, admin: TestClient, here: Services) -> None:
        first = submit(admin)
        refused = admin.post(JOBS, json=manifest())
        assert (refused.status_code, refused.json()["code"]) == (409, "ALREADY_EXISTS")
        end(here)
        second = submit(admin)
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        assert admin.get(f"{JOBS}/train").json()["metadata"]["uid"] == second["metadata"]["uid"]
        assert len(admin.get(JOBS).json()["items"]) == 2

    def test_of_two_at_once_with_one_name_one_wins(self, admin: TestClient) -> None:
        answers: list[int] = []
        threads = [
            threading.Thread(target=lambda: answers.append(admin.post(JOBS, json=manifest()).status_code))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == [201, 409, 409, 409]

    def test_the_same_name_in_another_namespace_is_another_job(self, admin: TestClient) -> None:
        submit(admin)
        assert admin.post("/api/v1/namespaces/research/jobs", json=manifest()).status_code == 201
        assert [job["metadata"]["namespace"] for job in admin.get("/api/v1/jobs").json()["items"]] == [
            "default",
            "research",
        ]
        assert len(admin.get(JOBS).json()["items"]) == 1

    def test_a_dry_run_checks_everything_and_writes_nothing(self, admin: TestClient) -> None:
        answer = admin.post(f"{JOBS}?dryRun=true", json=manifest())
        assert (answer.status_code, answer.json()["status"]["phase"]) == (200, "Queued")
        assert admin.get(JOBS).json()["items"] == []
        assert admin.post(f"{JOBS}?dryRun=true", json=manifest(queue="nope")).status_code == 422
        submit(admin)
        assert admin.post(f"{JOBS}?dryRun=true", json=manifest()).status_code == 409

    def test_a_queues_time_limit_fills_in_and_stays_out_of_the_way(self, admin: TestClient) -> None:
        queue = {"apiVersion": "muster.dev/v1", "kind": "Queue", "metadata": {"name": "short"}, "spec": {"defaultTimeLimit": "1h"}}  # fmt: skip
        assert admin.post("/api/v1/queues", json=queue).status_code == 201
        assert submit(admin, queue="short")["spec"]["timeLimit"] == "1h"
        assert submit(admin, "own", queue="short", timeLimit="2h")["spec"]["timeLimit"] == "2h"
        again = admin.put(f"{JOBS}/train", json=manifest(queue="short"))
        assert again.headers["muster-result"] == "unchanged"

    def test_a_manifest_read_from_the_server_can_be_sent_back(self, admin: TestClient) -> None:
        job = submit(admin)
        assert admin.put(f"{JOBS}/train", json=job).headers["muster-result"] == "unchanged"

    def test_a_database_that_is_busy_for_a_moment_is_asked_again(
        self, admin: TestClient, here: Services, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, failures = here.store.write, iter([Contended("locked"), Contended("locked")])

        def busy(*args: Any) -> Any:
            if (failure := next(failures, None)) is not None:
                raise failure
            return real(*args)

        monkeypatch.setattr(here.store, "write", busy)
        monkeypatch.setattr(here.store, "_sleep", lambda _: None)
        submit(admin)
        assert reasons(admin)[0] == "Submitted"


class TestStructural:
    def test_a_gang_that_fits_no_cluster_like_this_is_accepted_with_a_warning(
        self, admin: TestClient, here: Services
    ) -> None:
        here.write(lambda w: w.put_node(make_node("n0")))
        here.inventory.changed()
        job = submit(admin, accelerators=[{"type": "h100", "count": 16}])
        (warning,) = job["status"]["warnings"]
        assert warning.startswith("STRUCTURAL: ")
        assert "Structural" in reasons(admin)
        assert admin.get(f"{JOBS}/train").json()["status"]["warnings"] == [warning]

    def test_one_that_only_has_to_wait_gets_none(self, admin: TestClient, here: Services) -> None:
        here.write(lambda w: w.put_node(make_node("n0", cordoned=True)))
        here.inventory.changed()
        assert submit(admin, accelerators=[{"type": "H100", "count": 8}])["status"]["warnings"] == []


class TestCheckpointDirectory:
    @pytest.mark.parametrize("other", ["/ckpt/a", "/ckpt//a/", "/ckpt/b/../a", "//ckpt/a"])
    def test_belongs_to_one_live_job(self, admin: TestClient, here: Services, other: str) -> None:
        submit(admin, "first", checkpoint={"directory": "/ckpt/a"})
        path = "/api/v1/namespaces/research/jobs"
        refused = admin.post(path, json=manifest("second", checkpoint={"directory": other}))
        assert (refused.status_code, refused.json()["code"]) == (409, "CHECKPOINT_DIRECTORY_SHARED")
        assert "default/first" in refused.json()["detail"]
        assert refused.json()["errors"][0]["field"] == "spec.checkpoint.directory"
        end(here, "first")
        assert admin.post(path, json=manifest("second", checkpoint={"directory": other})).status_code == 201

    def test_a_relative_one_is_each_workers_own(self, admin: TestClient) -> None:
        submit(admin, "first", checkpoint={"directory": "ckpt"})
        submit(admin, "second", checkpoint={"directory": "ckpt"})

    def test_its_own_job_may_be_applied_again(self, admin: TestClient) -> None:
        submit(admin, checkpoint={"directory": "/ckpt/a"})
        changed = manifest(checkpoint={"directory": "/ckpt/a"}, priorityClass="high")
        assert admin.put(f"{JOBS}/train", json=changed).headers["muster-result"] == "configured"


class TestIdempotencyKey:
    def test_a_repeat_gets_the_same_job(self, admin: TestClient) -> None:
        answers = [admin.post(JOBS, json=manifest(), headers={"Idempotency-Key": "k"}) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [201] * 3
        assert len({answer.json()["metadata"]["uid"] for answer in answers}) == 1
        assert len(admin.get(JOBS).json()["items"]) == 1

    def test_a_repeat_after_the_end_makes_no_second_job(self, admin: TestClient, here: Services) -> None:
        headers = {"Idempotency-Key": "k"}
        first = admin.post(JOBS, json=manifest(), headers=headers).json()
        end(here)
        again = admin.post(JOBS, json=manifest(), headers=headers)
        assert (again.status_code, again.json()["metadata"]["uid"]) == (201, first["metadata"]["uid"])

    def test_a_key_is_for_one_request(self, admin: TestClient) -> None:
        headers = {"Idempotency-Key": "k"}
        admin.post(JOBS, json=manifest("a"), headers=headers)
        other = admin.post(JOBS, json=manifest("b"), headers=headers)
        assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_KEY_REUSED")

    def test_a_refused_request_leaves_its_key_free(self, admin: TestClient) -> None:
        headers = {"Idempotency-Key": "k"}
        assert admin.post(JOBS, json=manifest(queue="nope"), headers=headers).status_code == 422
        assert admin.post(JOBS, json=manifest(), headers=headers).status_code == 201

    def test_two_at_once_make_one_job(self, admin: TestClient) -> None:
        uids: list[str] = []

        def post() -> None:
            answer = admin.post(JOBS, json=manifest(), headers={"Idempotency-Key": "k"})
            uids.append(answer.json()["metadata"]["uid"])

        threads = [threading.Thread(target=post) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(uids) == 4
        assert len(set(uids)) == 1


class TestApply:
    def test_creates_then_finds_nothing_to_do(self, admin: TestClient) -> None:
        created = admin.put(f"{JOBS}/train", json=manifest())
        assert (created.status_code, created.headers["muster-result"]) == (201, "created")
        again = admin.put(f"{JOBS}/train", json=manifest())
        assert (again.status_code, again.headers["muster-result"]) == (200, "unchanged")
        assert again.json() == created.json()

    def test_a_finished_job_is_submitted_anew(self, admin: TestClient, here: Services) -> None:
        first = submit(admin)
        end(here, phase=JobPhase.FAILED)
        again = admin.put(f"{JOBS}/train", json=manifest())
        assert again.status_code == 201
        assert again.json()["metadata"]["uid"] != first["metadata"]["uid"]

    @pytest.mark.parametrize(
        ("change", "field", "value"),
        [
            ({"priorityClass": "high"}, "priorityClass", "high"),
            ({"recovery": {"maxRestarts": 3}}, "recovery", 3),
            ({"notify": {"webhook": "http://h/"}}, "notify", "http://h/"),
        ],
    )
    def test_changes_live_fields_at_once(
        self, admin: TestClient, change: dict[str, Any], field: str, value: object
    ) -> None:
        submit(admin)
        answer = admin.put(f"{JOBS}/train", json=manifest(**change))
        assert (answer.status_code, answer.headers["muster-result"]) == (200, "configured")
        found = answer.json()["spec"][field]
        assert found == value or value in found.values()
        assert answer.json()["metadata"]["generation"] == 2
        assert "Configured" in reasons(admin)

    def test_labels_change_without_a_new_generation(self, admin: TestClient) -> None:
        submit(admin)
        answer = admin.put(f"{JOBS}/train", json=manifest(metadata={"labels": {"team": "nlp"}})).json()
        assert answer["metadata"]["labels"] == {"team": "nlp"}
        assert answer["metadata"]["generation"] == 1

    def test_refuses_what_may_not_change_and_says_when_it_may(self, admin: TestClient) -> None:
        submit(admin, checkpoint={"directory": "/a"})
        changed = manifest(checkpoint={"directory": "/b"}, workers=3, command=["false"], priorityClass="high")
        answer = admin.put(f"{JOBS}/train", json=changed)
        assert (answer.status_code, answer.json()["code"]) == (409, "IMMUTABLE_FIELD")
        errors = {one["field"]: one["message"] for one in answer.json()["errors"]}
        assert errors.keys() == {"spec.checkpoint.directory", "spec.workers", "spec.command"}
        assert "next attempt" in errors["spec.workers"]
        assert "cannot be changed" in errors["spec.checkpoint.directory"]
        assert admin.get(f"{JOBS}/train").json()["spec"]["priorityClass"] == "normal"

    def test_a_suspended_job_takes_what_is_for_the_next_attempt(self, admin: TestClient, here: Services) -> None:
        submit(admin, suspend=True)
        end(here, phase=JobPhase.SUSPENDED)
        answer = admin.put(f"{JOBS}/train", json=manifest(workers=3, suspend=True))
        assert (answer.status_code, answer.json()["spec"]["workers"]) == (200, 3)
        assert admin.put(f"{JOBS}/train", json=manifest(workers=3, queue="nope", suspend=True)).status_code == 422

    @pytest.mark.parametrize("wish", [True, False])
    def test_carries_the_wish_to_suspend(self, admin: TestClient, here: Services, wish: bool) -> None:
        job = submit(admin, suspend=not wish)
        admin.put(f"{JOBS}/train", json=manifest(suspend=wish))
        with here.store.read() as r:
            record = r.job(job["metadata"]["uid"])
        assert record is not None
        assert record.suspend is wish

    @pytest.mark.parametrize("metadata", [{"resourceVersion": "1"}, {"uid": "other"}])
    def test_a_stale_manifest_is_refused(self, admin: TestClient, metadata: dict[str, str]) -> None:
        submit(admin)
        answer = admin.put(f"{JOBS}/train", json=manifest(metadata=metadata, priorityClass="high"))
        assert answer.status_code == 409

    def test_a_dry_run_says_what_would_happen(self, admin: TestClient) -> None:
        submit(admin)
        answer = admin.put(f"{JOBS}/train?dryRun=true", json=manifest(priorityClass="high"))
        assert answer.headers["muster-result"] == "configured"
        assert answer.json()["spec"]["priorityClass"] == "high"
        assert admin.get(f"{JOBS}/train").json()["spec"]["priorityClass"] == "normal"

    def test_a_job_that_is_being_cancelled_takes_no_changes(self, admin: TestClient) -> None:
        submit(admin)
        admin.post(f"{JOBS}/train/cancel")
        answer = admin.put(f"{JOBS}/train", json=manifest(priorityClass="high"))
        assert "being cancelled" in answer.json()["detail"]


class TestWishes:
    def test_are_written_for_the_controller_to_act_upon(self, admin: TestClient, here: Services) -> None:
        uid = submit(admin)["metadata"]["uid"]

        def wishes() -> tuple[bool, bool, bool]:
            with here.store.read() as r:
                record = r.job(uid)
            assert record is not None
            return record.suspend, record.cancel, record.restart_requested

        here.write(lambda w: w.patch_job(uid, attempt_uid="some"))
        for wish, expected in (
            ("restart", (False, False, True)),
            ("suspend", (True, False, False)),
            ("resume", (False, False, False)),
            ("cancel", (False, True, False)),
        ):
            assert admin.post(f"{JOBS}/train/{wish}").status_code == 202
            assert wishes() == expected
        assert reasons(admin)[-4:] == ["RestartRequested", "SuspendRequested", "ResumeRequested", "CancelRequested"]

    def test_a_wish_that_holds_already_writes_nothing(self, admin: TestClient) -> None:
        submit(admin)
        first = admin.post(f"{JOBS}/train/suspend").json()
        assert admin.post(f"{JOBS}/train/suspend").json() == first
        assert reasons(admin).count("SuspendRequested") == 1

    def test_a_restart_of_a_job_that_has_ended_begins_it_anew(self, admin: TestClient, here: Services) -> None:
        submit(admin)
        end(here, phase=JobPhase.FAILED)
        old = admin.get(f"{JOBS}/train").json()
        answer = admin.post(f"{JOBS}/train/restart?workdir=/new")
        assert answer.status_code == 202
        new = answer.json()
        assert new["metadata"]["uid"] != old["metadata"]["uid"]
        assert (new["status"]["phase"], new["spec"]["workdir"]) == ("Queued", "/new")
        assert admin.post(f"{JOBS}/train/restart?fromStep=5").json()["code"] == "NO_SUCH_STEP"
        assert admin.post(f"{JOBS}/train/restart?workdir=relative").status_code == 422

    @pytest.mark.parametrize("wish", ["suspend", "resume", "cancel"])
    def test_a_job_that_has_ended_has_none(self, admin: TestClient, here: Services, wish: str) -> None:
        submit(admin)
        end(here, phase=JobPhase.FAILED)
        answer = admin.post(f"{JOBS}/train/{wish}")
        assert (answer.status_code, answer.json()["code"]) == (409, "JOB_ENDED")

    def test_restart_needs_something_that_runs(self, admin: TestClient) -> None:
        submit(admin)
        assert "no running attempt" in admin.post(f"{JOBS}/train/restart").json()["detail"]

    def test_resume_frees_a_job_that_the_controller_holds(self, admin: TestClient, here: Services) -> None:
        uid = submit(admin)["metadata"]["uid"]
        here.write(lambda w: w.move_job(uid, JobPhase.SUSPENDED, reason="DiskFull"))
        admin.post(f"{JOBS}/train/resume")
        with here.store.read() as r:
            record = r.job(uid)
        assert record is not None
        assert record.restart_requested


class TestDelete:
    def test_cancels_a_live_job(self, admin: TestClient) -> None:
        submit(admin)
        answer = admin.delete(f"{JOBS}/train")
        assert (answer.status_code, answer.json()["status"]["phase"]) == (202, "Queued")
        assert reasons(admin)[-1] == "CancelRequested"

    def test_removes_a_finished_one_with_its_logs(self, admin: TestClient, here: Services) -> None:
        job = submit(admin)
        folder = here.settings.log_store / "default" / job["metadata"]["uid"]
        folder.mkdir(parents=True)
        end(here)
        assert admin.delete(f"{JOBS}/train").status_code == 200
        assert admin.get(f"{JOBS}/train").status_code == 404
        assert not folder.exists()

    def test_waits_for_the_last_process(self, admin: TestClient, here: Services) -> None:
        submit(admin)
        with here.store.read() as r:
            job = r.job_named("default", "train")
        assert job is not None
        here.write(lambda w: w.insert_attempt(make_attempt(job)))
        end(here)
        answer = admin.delete(f"{JOBS}/train")
        assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
        assert "has not ended" in answer.json()["detail"]


class TestLists:
    def test_pages_cover_everything_once(self, admin: TestClient) -> None:
        for number in range(5):
            submit(admin, f"job-{number}")
        found, token = [], ""
        while token is not None:
            page = admin.get(JOBS, params={"limit": 2} | ({"continue": token} if token else {})).json()
            found += [job["metadata"]["name"] for job in page["items"]]
            token = page["metadata"].get("continue")
        assert found == [f"job-{number}" for number in range(5)]

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("labelSelector=team=nlp", ["a"]),
            ("labelSelector=team=nlp,stage=dev", []),
            ("labelSelector=team==vision", ["b"]),
            ("phase=Cancelled", ["c"]),
            ("fieldSelector=status.phase=Cancelled", ["c"]),
            ("fieldSelector=metadata.name=a,spec.queue=default", ["a"]),
            ("fieldSelector=metadata.namespace=elsewhere", []),
            ("fieldSelector=status.phase=Queued&phase=Cancelled", []),
            ("phase=Queued&phase=Cancelled", ["a", "b", "c"]),
            ("queue=default", ["a", "b", "c"]),
            ("queue=other", []),
        ],
    )
    def test_can_be_narrowed(self, admin: TestClient, here: Services, query: str, expected: list[str]) -> None:
        for name, team in (("a", "nlp"), ("b", "vision"), ("c", "none")):
            admin.post(JOBS, json=manifest(name, metadata={"labels": {"team": team}}))
        end(here, "c")
        assert [job["metadata"]["name"] for job in admin.get(f"{JOBS}?{query}").json()["items"]] == expected

    def test_a_running_job_shows_its_attempt_workers_and_progress(
        self, admin: TestClient, here: Services, clock: ManualClock
    ) -> None:
        from muster.protocol import ProgressPoint

        uid = submit(admin)["metadata"]["uid"]
        with here.store.read() as r:
            job = r.job(uid)
        assert job is not None
        attempt = make_attempt(job, last_step=7, loss=0.5)

        def place(w: Any) -> None:
            w.insert_attempt(attempt)
            w.insert_worker(make_worker(attempt, node="n0", devices=(0, 1)))
            w.add_progress(attempt.uid, [ProgressPoint(step=7, at=clock.now(), loss=0.5)])
            w.move_job(uid, JobPhase.STARTING, attempt_uid=attempt.uid, epoch=1)

        here.write(place)
        status = admin.get(f"{JOBS}/train").json()["status"]
        assert status["attempt"] == {"uid": attempt.uid, "number": 1, "phase": "Placed"}
        assert status["progress"] == {"step": 7, "loss": 0.5, "at": iso(clock.now())}
        assert status["workers"] == [
            {"role": "worker", "index": 0, "node": "n0", "devices": [0, 1], "phase": "Assigned"}
        ]
        (listed,) = admin.get(JOBS).json()["items"]
        assert listed["status"] == status
        (shown,) = admin.get(f"{JOBS}/train/attempts").json()["items"]
        assert (shown["number"], shown["workers"][0]["node"]) == (1, "n0")


def test_every_job_has_a_number_that_no_other_has_and_is_found_by_it(admin: TestClient) -> None:
    admin.post(JOBS, json=manifest("first"))
    admin.put(f"{JOBS}/second", json=manifest("second"))
    items = [manifest(f"many-{index}") for index in range(3)]
    admin.post(JOBS, json={"apiVersion": "muster.dev/v1", "kind": "JobList", "items": items})
    found = {one["metadata"]["name"]: one["metadata"]["number"] for one in admin.get(JOBS).json()["items"]}
    assert len(set(found.values())) == 5
    assert found["first"] < found["second"] < min(number for name, number in found.items() if name.startswith("many"))
    for name, number in found.items():
        hits = admin.get(f"/api/v1/jobs?fieldSelector=metadata.number={number}").json()["items"]
        assert [one["metadata"]["name"] for one in hits] == [name]
    again = admin.get(f"{JOBS}/first").json()
    assert admin.put(f"{JOBS}/first", json=again).status_code == 200, "what was read may be applied"
    wrong = admin.get("/api/v1/jobs?fieldSelector=metadata.number=x")
    assert wrong.status_code == 422


def test_a_dry_run_tells_what_each_rank_would_get_and_writes_nothing(admin: TestClient) -> None:
    asked = manifest("train", workers=2, framework="torchrun", command=["python", "train.py"])
    answer = admin.put(f"{JOBS}/train", params={"dryRun": True, "launch": True}, json=asked)
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert (shown["kind"], shown["framework"]) == ("LaunchPreview", "torchrun")
    assert [one["processes"][0]["env"]["MUSTER_WORKER_INDEX"] for one in shown["items"]] == ["0", "1"]
    assert admin.get(f"{JOBS}/train").status_code == 404
