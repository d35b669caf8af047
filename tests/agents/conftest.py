"""A fake API and a real agent for each test that asks for them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.protocol import Lease
from tests.agents.cluster import AgentProcess, FakeApi


@pytest.fixture
def api() -> Iterator[FakeApi]:
    api = FakeApi(Lease(renew=0.2, unknown=2.0, fence=600.0, margin=1.0))
    yield api
    api.stop()


@pytest.fixture
def start_agent(api: FakeApi, tmp_path: Path) -> Iterator[Callable[..., AgentProcess]]:
    agents: list[AgentProcess] = []

    def start(name: str = "n1", **environ: str) -> AgentProcess:
        agents.append(AgentProcess(api, tmp_path / name, **environ))
        return agents[-1]

    yield start
    for agent in agents:
        agent.end()


@pytest.fixture
def agent(start_agent: Callable[..., AgentProcess]) -> AgentProcess:
    return start_agent()
