"""The API as a process: it starts, says what is wrong, ends when told to, and loses nothing when killed."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from api.settings import Settings, from_environment
from muster.client import Client, MusterError
from tests.api.agent import hello
from tests.api.conftest import eventually, manifest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def environment(sqlite_url: str, tmp_path: Path) -> dict[str, str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "MUSTER_DATABASE_URL": sqlite_url,
        "MUSTER_LOG_STORE": str(tmp_path / "logs"),
        "MUSTER_ADMIN_TOKEN_FILE": str(tmp_path / "token"),
        "MUSTER_AGENT_TOKEN_FILE": str(tmp_path / "agent-token"),
        "MUSTER_SECRET_FILE": str(tmp_path / "secret"),
        "MUSTER_API_PORT": str(port),
    }


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def act(**changes: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "api.main"], env=environment | changes, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield act
    for process in started:
        process.kill()
        process.communicate()


def ready(environment: dict[str, str]) -> Client:
    url = f"http://127.0.0.1:{environment['MUSTER_API_PORT']}"

    def answers() -> bool:
        try:
            Client(url, retries=0).http.request("GET", "/readyz")
        except MusterError:
            return False
        return True

    eventually(answers, 60)
    return Client(url, Path(environment["MUSTER_ADMIN_TOKEN_FILE"]).read_text().strip())


def test_ends_with_0_within_a_second_or_so_although_streams_are_open(start: Start, environment: dict[str, str]) -> None:
    from websockets.sync.client import connect

    from muster.protocol import encode

    process = start()
    client = ready(environment)
    client.create(manifest())
    watcher = client.watch(bookmarks=True)
    next(watcher)
    follower = client.logs("train", follow=True)
    token = Path(environment["MUSTER_AGENT_TOKEN_FILE"]).read_text().strip()
    url = client.server.replace("http", "ws") + "/agent/v1/stream"
    with connect(url, additional_headers={"Authorization": f"Bearer {token}"}) as agent:
        agent.send(encode(hello()).decode())
        agent.recv(10)
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert time.monotonic() - begun < 10, "a busy machine may be slow, but this waited for somebody"
    del follower


def test_an_acknowledged_submission_survives_kill_9(start: Start, environment: dict[str, str]) -> None:
    process = start()
    client = ready(environment)
    uid = client.create(manifest(), key="k")["metadata"]["uid"]
    token = Path(environment["MUSTER_ADMIN_TOKEN_FILE"]).read_text()
    process.kill()
    process.wait()
    start()
    client = ready(environment)
    assert client.get("Job", "train")["metadata"]["uid"] == uid
    assert client.create(manifest(), key="k")["metadata"]["uid"] == uid
    assert Path(environment["MUSTER_ADMIN_TOKEN_FILE"]).read_text() == token


def test_a_port_in_use_is_said_in_one_line(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        process = start(MUSTER_API_PORT=port)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors == f"muster api: cannot listen on 127.0.0.1:{port}: Address already in use\n"


@pytest.mark.parametrize("url", ["sqlite:////proc/nope/muster.db", "nonsense"])
def test_a_database_that_cannot_be_used_is_said_in_one_line(start: Start, url: str) -> None:
    process = start(MUSTER_DATABASE_URL=url)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.startswith("muster api: ")
    assert "Traceback" not in errors


def test_an_open_secret_is_said_in_one_line(start: Start, environment: dict[str, str]) -> None:
    path = Path(environment["MUSTER_SECRET_FILE"])
    path.write_text("secret")
    path.chmod(0o644)
    process = start()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "chmod 600" in errors
    assert errors.count("\n") == 1


class TestSettings:
    def test_all_that_is_missing_is_said_at_once(self) -> None:
        with pytest.raises(ValueError) as refused:
            from_environment({"MUSTER_API_PORT": "99999", "MUSTER_LEASE": "{"})
        for name in (
            "DATABASE_URL",
            "LOG_STORE",
            "ADMIN_TOKEN_FILE",
            "AGENT_TOKEN_FILE",
            "SECRET_FILE",
            "API_PORT",
            "LEASE",
        ):
            assert f"MUSTER_{name}" in str(refused.value)

    def test_what_is_not_said_has_a_default(self, environment: dict[str, str]) -> None:
        found = from_environment(environment)
        assert isinstance(found, Settings)
        assert (found.host, found.redis_url, found.lease.renew) == ("127.0.0.1", None, 5.0)
