"""A gang as pods, from the first creation to the last confirmed death, over HTTP."""

from typing import Any

import pytest

from controller.executors.kubernetes.executor import KubernetesExecutor
from controller.executors.kubernetes.pod import ATTEMPT, EPOCH, GO, JOB, WORKER
from muster.evidence import Source
from muster.protocol import RankExit
from muster.states import WorkerPhase
from tests.kubernetes.conftest import Seat
from tests.kubernetes.fake_api import PODS, FakeKubernetes
from tests.kubernetes.gangs import Gang

ENDED = 1_700_000_000.0


def running(seat: Seat, api: FakeKubernetes) -> None:
    """Bring the gang past its barrier."""
    seat.turn()
    api.run()
    seat.turn()
    seat.gang.want("run")
    seat.turn()
    assert seat.phases() == ["Running"] * 3


def test_every_worker_becomes_a_pod_of_its_own_bound_to_its_planned_node(seat: Seat, api: FakeKubernetes) -> None:
    seat.turn()
    assert [api.pods[name]["spec"]["nodeName"] for name in seat.gang.names] == ["n0", "n1", "n2"]
    assert {pod["spec"]["schedulerName"] for pod in api.pods.values()} == {"muster"}
    first = seat.gang.intent.workers[0]
    assert api.pods[seat.gang.names[0]]["metadata"]["labels"] == {
        JOB: first.job_uid,
        ATTEMPT: first.attempt_uid,
        WORKER: first.uid,
        EPOCH: "1",
    }


def test_a_gang_goes_through_all_phases_and_waits_at_the_barrier(seat: Seat, api: FakeKubernetes) -> None:
    seat.turn()
    assert seat.phases() == ["Preparing"] * 3
    api.run(*seat.gang.names[:2])
    seat.turn()
    assert seat.phases() == ["Ready", "Ready", "Preparing"]
    assert not any(GO in pod["metadata"].get("annotations", {}) for pod in api.pods.values())
    api.run(seat.gang.names[2])
    seat.turn()
    assert seat.phases() == ["Ready"] * 3
    seat.gang.want("run")
    seat.turn()
    assert seat.phases() == ["Running"] * 3
    assert all(pod["metadata"]["annotations"][GO] == "run" for pod in api.pods.values())


def test_repeating_everything_changes_nothing_and_sees_nothing_new(seat: Seat, api: FakeKubernetes) -> None:
    running(seat, api)
    before = {name: pod["metadata"]["resourceVersion"] for name, pod in api.pods.items()}
    for _ in range(3):
        assert seat.turn() == []
    assert {name: pod["metadata"]["resourceVersion"] for name, pod in api.pods.items()} == before


@pytest.mark.parametrize(
    ("code", "reason", "signal", "exit_"),
    [
        (0, "", 0, RankExit(process=0, code=0, at=ENDED)),
        (3, "", 0, RankExit(process=0, code=3, at=ENDED)),
        (137, "OOMKilled", 0, RankExit(process=0, code=137, oom=True, at=ENDED)),
        (139, "", 11, RankExit(process=0, code=139, signal=11, at=ENDED)),
    ],
)
def test_an_end_is_seen_exactly(
    seat: Seat, api: FakeKubernetes, code: int, reason: str, signal: int, exit_: RankExit
) -> None:
    running(seat, api)
    api.end(seat.gang.names[1], code, reason, signal)
    [seen] = seat.turn()
    assert (str(seen.phase), seen.exits, seen.problem) == ("Exited", (exit_,), "")
    [evidence] = seen.evidence
    assert (evidence.source, evidence.node, evidence.at) == (Source.EXIT, "n1", ENDED)
    assert evidence.data == {"code": code, "signal": signal or None, "oom": reason == "OOMKilled"}


def test_a_gang_that_ends_well_is_cleared_away(seat: Seat, api: FakeKubernetes) -> None:
    running(seat, api)
    for name in seat.gang.names:
        api.end(name)
    seat.turn()
    assert seat.phases() == ["Exited"] * 3
    seat.turn()
    api.confirm_deletions()
    assert api.pods == {}


def test_a_stopped_worker_has_exited_only_when_its_pod_is_gone(seat: Seat, api: FakeKubernetes) -> None:
    running(seat, api)
    seat.gang.want("stop")
    seat.turn()
    assert all("deletionTimestamp" in pod["metadata"] for pod in api.pods.values())
    assert seat.phases() == ["Running"] * 3
    for name in seat.gang.names:
        api.end(name, 143)
    seat.turn()
    assert seat.phases() == ["Running"] * 3
    assert [worker.exits[0].code for worker in seat.gang.intent.workers] == [143] * 3
    api.confirm_deletions()
    seat.turn()
    assert seat.phases() == ["Exited"] * 3
    assert [worker.exits[0].code for worker in seat.gang.intent.workers] == [143] * 3
    assert {worker.problem for worker in seat.gang.intent.workers} == {""}


def test_a_gang_stopped_before_any_pod_was_made_has_exited(seat: Seat, api: FakeKubernetes) -> None:
    seat.gang.want("stop")
    seat.turn()
    assert seat.phases() == ["Exited"] * 3
    assert api.count("POST") == 0


@pytest.mark.parametrize(("path", "what"), [(f"{PODS}$", "creation"), ("binding$", "binding")])
@pytest.mark.parametrize("skip", [0, 1, 2])
@pytest.mark.parametrize("status", [403, 409, 500])
def test_one_refused_creation_or_binding_takes_the_whole_gang_back_and_it_is_tried_again(
    seat: Seat, api: FakeKubernetes, path: str, what: str, skip: int, status: int
) -> None:
    api.refuse("POST", path, status, skip=skip)
    seat.turn()
    assert all("deletionTimestamp" in pod["metadata"] for pod in api.pods.values())
    assert seat.phases() == ["Assigned"] * 3
    leftovers = dict(api.pods)
    if leftovers:
        creations = api.count("POST", f"{PODS}$")
        seat.turn()
        assert api.count("POST", f"{PODS}$") == creations, "not before all of them are gone"
    api.confirm_deletions()
    seat.turn()
    assert seat.phases() == ["Preparing"] * 3
    assert {pod["spec"]["nodeName"] for pod in api.pods.values()} == {"n0", "n1", "n2"}


def test_a_controller_that_dies_between_two_pods_is_taken_over_by_the_next(seat: Seat, api: FakeKubernetes) -> None:
    seat.turn()
    for index in range(3):
        seat.gang.change(index, phase=WorkerPhase.ASSIGNED)
    gone = seat.gang.names[2]
    del api.pods[gone]
    del api.pods[seat.gang.names[1]]["spec"]["nodeName"]
    kept = api.pods[seat.gang.names[0]]["metadata"]["uid"]
    environ = {"MUSTER_KUBERNETES_SERVER": api.url, "MUSTER_KUBERNETES_IMAGE": "trainer:1"}
    seat.executor = KubernetesExecutor.from_environment(environ)
    assert seat.look() == [], "nothing is known before the intents are"
    seat.turn()
    assert [api.pods[name]["spec"]["nodeName"] for name in seat.gang.names] == ["n0", "n1", "n2"]
    assert api.pods[seat.gang.names[0]]["metadata"]["uid"] == kept
    assert seat.phases() == ["Preparing"] * 3


def test_a_pod_that_somebody_deleted_has_vanished_and_is_not_made_again(seat: Seat, api: FakeKubernetes) -> None:
    running(seat, api)
    del api.pods[seat.gang.names[0]]
    [seen] = seat.turn()
    assert (str(seen.phase), seen.problem, seen.exits) == ("Exited", "VANISHED", ())
    seat.turn()
    assert seat.gang.names[0] not in api.pods


def test_a_pod_on_another_node_than_planned_takes_the_gang_back(seat: Seat, api: FakeKubernetes) -> None:
    seat.turn()
    api.pods[seat.gang.names[0]]["spec"]["nodeName"] = "elsewhere"
    for index in range(3):
        seat.gang.change(index, phase=WorkerPhase.ASSIGNED)
    seat.turn()
    assert all("deletionTimestamp" in pod["metadata"] for pod in api.pods.values())
    api.confirm_deletions()
    seat.turn()
    assert [api.pods[name]["spec"]["nodeName"] for name in seat.gang.names] == ["n0", "n1", "n2"]


def test_pods_of_an_older_epoch_are_deleted_and_those_of_other_jobs_stay(
    seat: Seat, api: FakeKubernetes, executor: KubernetesExecutor
) -> None:
    running(seat, api)
    other = Seat(executor, Gang(1))
    other.gang.intent = _renamed(other.gang)
    other.turn()
    newer = Seat(executor, Gang(3, number=2))
    newer.turn()
    deleting = {name for name, pod in api.pods.items() if "deletionTimestamp" in pod["metadata"]}
    assert deleting == set(seat.gang.names)
    assert newer.phases() == ["Preparing"] * 3


def _renamed(gang: Gang) -> Any:
    from msgspec.structs import replace

    intent = gang.intent
    job, attempt = replace(intent.job, uid="job-other"), replace(intent.attempt, uid="other-a1", job_uid="job-other")
    workers = tuple(
        replace(w, uid=f"other-{w.index}", job_uid=job.uid, attempt_uid=attempt.uid) for w in intent.workers
    )
    return replace(intent, job=job, attempt=attempt, workers=workers)


def test_a_pod_that_took_the_name_of_the_one_to_delete_stays(seat: Seat, api: FakeKubernetes) -> None:
    running(seat, api)
    name = seat.gang.names[0]
    seat.executor._delete(name, "uid-of-its-predecessor")
    seat.executor._delete("muster-gone", "uid-of-anything")
    assert "deletionTimestamp" not in api.pods[name]["metadata"]


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_an_api_that_fails_raises_nothing_and_the_next_turn_mends_it(
    seat: Seat, api: FakeKubernetes, method: str
) -> None:
    seat.turn()
    api.run()
    seat.turn()
    seat.gang.want("stop" if method == "DELETE" else "run")
    api.refuse(method, PODS, 503, times=2)
    seat.turn()
    seat.turn()
    seat.turn()
    seat.turn()
    if method == "DELETE":
        assert all("deletionTimestamp" in pod["metadata"] for pod in api.pods.values())
    else:
        assert seat.phases() == ["Running"] * 3


def test_a_server_that_is_away_raises_nothing(seat: Seat, api: FakeKubernetes) -> None:
    api.close()
    assert seat.turn() == []
    assert seat.phases() == ["Assigned"] * 3


def test_a_pod_that_is_not_ours_is_not_touched(seat: Seat, api: FakeKubernetes) -> None:
    strange = {"name": "strange", "uid": "u", "labels": {ATTEMPT: "x", JOB: "y", WORKER: "z", EPOCH: "first"}}
    api.pods["strange"] = {"metadata": strange, "spec": {"nodeName": "n0"}, "status": {"phase": "Running"}}
    running_names = set(seat.gang.names)
    seat.turn()
    assert set(api.pods) == {"strange", *running_names}


def test_the_executor_cannot_be_made_without_an_image() -> None:
    with pytest.raises(ValueError, match="MUSTER_KUBERNETES_IMAGE"):
        KubernetesExecutor.from_environment({"MUSTER_KUBERNETES_SERVER": "http://127.0.0.1:1"})


def test_outside_of_a_cluster_the_server_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ValueError, match="MUSTER_KUBERNETES_SERVER"):
        KubernetesExecutor.from_environment({"MUSTER_KUBERNETES_IMAGE": "trainer:1"})
