"""The executor against the fake API server, and gangs to give to it."""

import os
from collections.abc import Iterator

import pytest

from controller.executors.base import Observation
from controller.executors.kubernetes.executor import KubernetesExecutor
from muster.states import WORKER_MOVES
from tests.kubernetes.fake_api import FakeKubernetes
from tests.kubernetes.gangs import Gang

pytest.importorskip("kubernetes", reason="the client comes with the extra `kubernetes`")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeKubernetes]:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    fake = FakeKubernetes()
    yield fake
    fake.close()


@pytest.fixture
def executor(api: FakeKubernetes) -> KubernetesExecutor:
    return KubernetesExecutor.from_environment(
        {"MUSTER_KUBERNETES_SERVER": api.url, "MUSTER_KUBERNETES_IMAGE": "trainer:1"}
    )


class Seat:
    """What the loop does with an executor: give intents, write what is seen into the records."""

    def __init__(self, executor: KubernetesExecutor, gang: Gang) -> None:
        self.executor, self.gang = executor, gang

    def turn(self) -> list[Observation]:
        """Reconcile, observe, write."""
        self.executor.reconcile([self.gang.intent])
        return self.look()

    def look(self) -> list[Observation]:
        attempt = self.gang.intent.attempt
        seen = [one for one in self.executor.observe() if one.attempt_uid == attempt.uid]
        for one in seen:
            worker = self.gang.worker(one.worker_uid)
            assert one.phase == worker.phase or one.phase in WORKER_MOVES[worker.phase], "an impossible move was seen"
            assert one.epoch == worker.epoch
            self.gang.change(worker.index, phase=one.phase, exits=one.exits, problem=one.problem, message=one.message)
        return seen

    def phases(self) -> list[str]:
        return [str(worker.phase) for worker in self.gang.intent.workers]


@pytest.fixture
def seat(executor: KubernetesExecutor) -> Seat:
    """A gang of three on n0, n1, n2."""
    return Seat(executor, Gang(3))
