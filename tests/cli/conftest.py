"""A stub cluster that the command line finds, and the command line itself in this process."""

from dataclasses import dataclass

import pytest

from cli.main import run
from tests.cli import canned
from tests.cli.stub import Stub


@pytest.fixture(scope="session")
def server():
    stub = Stub()
    yield stub
    stub.close()


@pytest.fixture
def stub(server, monkeypatch):
    """The server, with a job, nodes and a queue in it."""
    server.answers.clear()
    server.asked.clear()
    job = "/namespaces/default/jobs/ddp-digits"
    server.listed("/namespaces/default/jobs", [canned.JOB, canned.WAITING])
    server.listed("/jobs", [canned.JOB, canned.WAITING])
    server.get(job, canned.JOB)
    server.get("/namespaces/default/jobs/llama-sft/why", canned.WHY)
    server.listed(f"{job}/attempts", [canned.FIRST, canned.SECOND, canned.THIRD])
    server.listed(f"{job}/events", canned.EVENTS)
    server.listed(f"{job}/checkpoints", canned.CHECKPOINTS)
    server.listed("/events", canned.EVENTS)
    server.listed("/namespaces/default/events", canned.EVENTS)
    server.listed("/nodes", canned.NODES)
    for node in canned.NODES:
        server.get(f"/nodes/{node['metadata']['name']}", node)
        server.listed(f"/nodes/{node['metadata']['name']}/repairs", [])
    server.listed("/queues", [canned.QUEUE])
    server.get("/queues/default", canned.QUEUE)
    monkeypatch.setenv("MUSTER_SERVER", server.url)
    monkeypatch.setenv("MUSTER_TOKEN", "secret")
    return server


@pytest.fixture(autouse=True)
def _calm(monkeypatch, tmp_path):
    """No cluster of the one who runs the tests, a fixed time, no terminal."""
    for name in ("MUSTER_SERVER", "MUSTER_TOKEN", "MUSTER_TOKEN_FILE", "MUSTER_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MUSTER_DATA_DIR", str(tmp_path / "nothing-here"))
    for module in ("get", "describe", "events", "why"):
        monkeypatch.setattr(f"cli.verbs.{module}.now", lambda: canned.NOW)


@dataclass
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def muster(capfdbinary):
    """`muster(*words)`: its exit code and what it printed."""

    def call(*words):
        code = run([str(word) for word in words])
        out, err = capfdbinary.readouterr()
        return Done(code, out.decode(), err.decode())

    return call
