"""The real loop with pods instead of agents: what is above the seam does not notice."""

from pathlib import Path

import pytest

from controller.executors.kubernetes.executor import KubernetesExecutor
from controller.executors.kubernetes.pod import EPOCH
from controller.loop import Loop
from muster.states import AttemptPhase, JobPhase
from tests.kubernetes.fake_api import FakeKubernetes
from tests.loop.world import LEASE, World


class PodWorld(World):
    """The world whose nodes have a kubelet and no agent of ours."""

    def __init__(self, folder: Path, api: FakeKubernetes, executor: KubernetesExecutor) -> None:
        self.api, self.executor = api, executor
        super().__init__(folder)

    def lead(self) -> None:
        super().lead()
        self.loop = Loop(
            store=self.store,
            guard=self.guard,
            executor=self.executor,
            publish=self.published.append,
            outbox=lambda _now: None,
            clock=self.clock,
            new_id=self.new_id,
            lease=LEASE,
        )

    def act(self) -> None:
        """Kubelets start what is bound and kill what is to be deleted."""
        self.api.confirm_deletions()
        waiting = [name for name, pod in self.api.pods.items() if pod["status"]["phase"] == "Pending"]
        for name in waiting:
            if self.api.pods[name]["spec"].get("nodeName"):
                self.api.run(name)

    def gone(self) -> bool:
        return not self.api.pods


@pytest.fixture
def world(tmp_path: Path, api: FakeKubernetes, executor: KubernetesExecutor) -> PodWorld:
    return PodWorld(tmp_path, api, executor)


def test_a_gang_of_pods_runs_and_succeeds(world: PodWorld, api: FakeKubernetes) -> None:
    job = world.submit(workers=2)
    world.run(job)
    assert len(api.pods) == 2
    for name in list(api.pods):
        api.end(name)
    world.until(world.phase_is(job, JobPhase.SUCCEEDED))
    world.until(world.gone)


def test_a_pod_that_fails_stops_its_gang_and_the_job_recovers_in_a_newer_epoch(
    world: PodWorld, api: FakeKubernetes
) -> None:
    job = world.submit(workers=2)
    world.run(job)
    api.end(sorted(api.pods)[0], 137, "OOMKilled")
    world.until(world.phase_is(job, JobPhase.RUNNING, attempt=2))
    first, second = world.attempts(job)
    assert (first.phase, second.phase) == (AttemptPhase.ENDED, AttemptPhase.RUNNING)
    assert any(exit_.oom for worker in world.workers(first) for exit_ in worker.exits)
    assert {pod["metadata"]["labels"][EPOCH] for pod in api.pods.values()} == {str(second.epoch)}


def test_a_cancelled_gang_ends_when_its_pods_are_gone(world: PodWorld, api: FakeKubernetes) -> None:
    job = world.submit(workers=2)
    world.run(job)
    world.wish(job, cancel=True)
    world.until(world.phase_is(job, JobPhase.CANCELLED))
    assert world.gone()
