"""Who may do what: people, agents, attempts, and everybody else."""

import os
import stat
import threading
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from api import credentials
from api.credentials import BadSecret, read_or_make
from api.services import Services
from api.settings import Settings
from muster.clock import ManualClock
from muster.states import AttemptPhase, JobPhase
from tests.api.conftest import JOBS
from tests.makers import make_attempt, make_job

PEOPLE = [JOBS, "/api/v1/jobs", "/api/v1/nodes", "/api/v1/queues", "/api/v1/events", "/api/v1/changes", "/api/v1/version"]  # fmt: skip
OPEN = ["/healthz", "/readyz", "/metrics", "/openapi.json"]


@pytest.mark.parametrize("path", [*PEOPLE, "/api/v1/self", "/api/v1/nope", "/api", "/agent/v1/stream"])
def test_without_a_token_it_is_401(anybody: TestClient, path: str) -> None:
    answer = anybody.get(path)
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Basic YTpi", "nonsense", "Bearer wrong", "Bearer a.b"])
def test_a_token_that_is_none_is_401(anybody: TestClient, header: str) -> None:
    assert anybody.get(JOBS, headers={"Authorization": header}).status_code == 401


@pytest.mark.parametrize("path", OPEN)
def test_health_metrics_and_the_document_are_open(anybody: TestClient, path: str) -> None:
    assert anybody.get(path).status_code == 200


@pytest.mark.parametrize("path", [*PEOPLE, "/api/v1/self"])
def test_an_agents_token_opens_nothing_but_its_stream(
    anybody: TestClient, agent_headers: dict[str, str], path: str
) -> None:
    answer = anybody.get(path, headers=agent_headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")


def test_a_bad_token_is_401_even_with_a_bad_body(anybody: TestClient) -> None:
    answer = anybody.post(JOBS, content=b"{", headers={"content-type": "application/json"})
    assert answer.status_code == 401


def attempt_token(here: Services, phase: AttemptPhase = AttemptPhase.RUNNING) -> str:
    job = make_job()
    attempt = make_attempt(job, phase=phase)
    here.write(lambda w: (w.insert_job(job), w.insert_attempt(attempt)))
    return credentials.attempt_token(here.authenticator.secret, attempt.uid, attempt.epoch)


def test_an_attempts_token_reads_its_own_attempt_and_nothing_else(anybody: TestClient, here: Services) -> None:
    headers = {"Authorization": f"Bearer {attempt_token(here)}"}
    assert anybody.get("/api/v1/self", headers=headers).json() == {
        "namespace": "default",
        "job": "train",
        "jobUid": "job-train",
        "attempt": {"uid": "job-train-a1", "number": 1, "phase": "Running"},
        "epoch": 1,
        "resume": None,
    }
    for path in PEOPLE:
        assert anybody.get(path, headers=headers).status_code == 403


def test_an_attempts_token_dies_with_it(anybody: TestClient, here: Services) -> None:
    headers = {"Authorization": f"Bearer {attempt_token(here)}"}
    assert anybody.get("/api/v1/self", headers=headers).status_code == 200
    here.write(lambda w: w.move_attempt("job-train-a1", AttemptPhase.ENDED))
    answer = anybody.get("/api/v1/self", headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (401, "the attempt of this token has ended")


def test_an_attempts_token_of_another_epoch_proves_nothing(anybody: TestClient, here: Services) -> None:
    attempt_token(here)
    forged = credentials.attempt_token(here.authenticator.secret, "job-train-a1", 2)
    assert anybody.get("/api/v1/self", headers={"Authorization": f"Bearer {forged}"}).status_code == 401


def test_a_token_that_was_looked_up_is_remembered_for_a_while(
    admin: TestClient, here: Services, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert admin.get("/api/v1/version").status_code == 200
    asked = []
    real = here.authenticator.principal
    monkeypatch.setattr(here.authenticator, "principal", lambda token: asked.append(1) or real(token))
    admin.get("/api/v1/version")
    assert asked == []
    clock.advance(31)
    admin.get("/api/v1/version")
    assert asked == [1]


def test_the_secrets_are_made_once_for_the_owner_alone(admin: TestClient, settings: Settings) -> None:
    texts = set()
    for path in (settings.admin_token_file, settings.agent_token_file, settings.secret_file):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        texts.add(path.read_text())
    assert len(texts) == 3


def test_no_token_is_in_the_database(admin: TestClient, settings: Settings, tmp_path: Path) -> None:
    for path in tmp_path.glob("muster.db*"):
        assert settings.admin_token_file.read_text().strip().encode() not in path.read_bytes()


def test_processes_that_start_at_once_agree_on_a_secret(tmp_path: Path) -> None:
    path, found, barrier = tmp_path / "deep" / "secret", [], threading.Barrier(8)

    def start(number: int) -> None:
        barrier.wait()
        found.append(read_or_make(path, lambda: f"secret-{number}"))

    threads = [threading.Thread(target=start, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [one.name for one in path.parent.iterdir()] == ["secret"]


@pytest.mark.parametrize(
    ("content", "mode", "words"), [("", 0o600, "is empty"), ("x", 0o644, "chmod 600"), ("x", 0o620, "chmod 600")]
)
def test_a_secret_that_is_none_is_refused(tmp_path: Path, content: str, mode: int, words: str) -> None:
    path = tmp_path / "secret"
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(BadSecret, match=words):
        read_or_make(path, str)


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of root's: needs root")
@pytest.mark.parametrize(("mode", "words"), [(0o440, ""), (0o444, "chmod 600"), (0o460, "chmod 600")])
def test_a_mounted_secret_of_roots_may_be_read_by_our_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, words: str
) -> None:
    path = tmp_path / "secret"
    path.write_text("x")
    path.chmod(mode)
    monkeypatch.setattr(credentials.os, "geteuid", lambda: 10001)
    if words:
        with pytest.raises(BadSecret, match=words):
            read_or_make(path, str)
    else:
        assert read_or_make(path, str) == "x"


def test_an_attempt_may_ask_for_its_own_restart_and_for_nothing_else(
    admin: TestClient, anybody: TestClient, here: Services
) -> None:
    job = make_job(phase=JobPhase.RUNNING, attempt_uid="job-train-a1")
    attempt = make_attempt(job, phase=AttemptPhase.RUNNING)
    here.write(lambda w: (w.insert_job(job), w.insert_attempt(attempt)))
    token = credentials.attempt_token(here.authenticator.secret, attempt.uid, attempt.epoch)
    mine = {"Authorization": f"Bearer {token}"}
    assert anybody.post("/api/v1/self/restart", headers=mine).status_code == 202
    with here.store.read() as r:
        found = r.job(job.uid)
    assert found is not None
    assert found.restart_requested
    assert anybody.post(f"{JOBS}/{job.name}/restart", headers=mine).status_code == 403
    assert admin.post("/api/v1/self/restart").status_code == 403
