"""A worker's life on a node, with a real agent and real shims: from the assignment to the reported end."""

import pytest

from muster.evidence import Source
from tests.agents.cluster import AgentProcess, FakeApi, make_assignment, until

pytestmark = pytest.mark.processes


def test_a_worker_waits_at_the_barrier_and_runs_when_told(api: FakeApi, agent: AgentProcess) -> None:
    api.want(make_assignment("w1", "echo hello; exit 0"))
    api.reaches("Ready")
    assert "go" not in [event["event"] for event in agent.events()]
    api.change("w1", desired="run")
    report = api.reaches("Exited")
    assert [(e.process, e.rank, e.code, e.signal) for e in report.exits] == [(0, 0, 0, None)]
    assert report.problem == ""
    assert api.phases() == ["Preparing", "Ready", "Running", "Exited"] or api.phases() == [
        "Preparing",
        "Ready",
        "Exited",
    ]
    until(lambda: api.log() == "hello\n")
    assert [e.text for e in api.evidence() if e.source is Source.LOG] == ["hello\n"]
