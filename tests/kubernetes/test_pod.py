"""The pod of a worker, the barrier as a real shell runs it, and what is read back from pods."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from controller.executors.kubernetes.decide import observations, steps
from controller.executors.kubernetes.pod import BARRIER, EPOCH, Site, complete, manifest, read_pod, unsupported
from muster.launch import LaunchTemplate
from muster.protocol import RankExit
from muster.states import WorkerPhase
from tests.kubernetes.gangs import TEMPLATE, Gang

SITE = Site(image="trainer:1", interface="ens3")


def pod_of(gang: Gang, index: int = 0) -> dict[str, Any]:
    return manifest(gang.intent, gang.intent.workers[index], SITE)


def seen(gang: Gang, **status: Any) -> dict[str, Any]:
    """The first worker's pod as a server would give it."""
    item = pod_of(gang)
    item["metadata"]["uid"] = "u1"
    item["spec"]["nodeName"] = "n0"
    return {**item, "status": status}


def container(name: str = "process-0", **state: Any) -> dict[str, Any]:
    return {"name": name, "state": state}


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("plain", "plain"),
        ("%{python}", "python3"),
        ("tcp://%{address}:1", "tcp://$(MUSTER_ADDRESS):1"),
        ("%{interface}", "ens3"),
        ("%{dir}/x", "/muster/x"),
        ("%{logs}/t", "/muster/logs/t"),
        ("%{report}", "/muster/report"),
        ("--from=%{resume}", "--from=/ckpt/step-5"),
        ("100%%{d}", "100%{d}"),
        ("$(HOME) $HOME", "$$(HOME) $HOME"),
        ("%%{address}", "%{address}"),
    ],
)
def test_placeholders_become_what_a_pod_knows_and_the_users_text_stays(text: str, completed: str) -> None:
    assert complete(text, replace(TEMPLATE, resume="/ckpt/step-5"), SITE) == completed


def test_a_pod_has_one_container_for_each_process_with_its_environment() -> None:
    template = LaunchTemplate(
        framework="command",
        processes=(("a", "1"), ("b", "2")),
        env={"SHARED": "s", "CUDA_VISIBLE_DEVICES": "0,1"},
        process_env=({"RANK": "0"}, {"RANK": "1"}),
        workdir="/code",
    )
    gang = Gang(1, template=template, accelerators=[{"type": "h100", "count": 3}])
    gang.change(0, devices=(0, 1, 2), cpu_milli=3000, memory=2**30)
    first, second = pod_of(gang)["spec"]["containers"]
    assert (first["command"][-2:], second["command"][-2:]) == (["a", "1"], ["b", "2"])
    for one, rank, devices in ((first, "0", "2"), (second, "1", "1")):
        values = {entry["name"]: entry.get("value") for entry in one["env"]}
        assert values == {"MUSTER_ADDRESS": None, "SHARED": "s", "RANK": rank}
        assert one["resources"]["limits"] == {"cpu": "1500m", "memory": str(2**29), "nvidia.com/gpu": devices}


def test_a_pod_waits_never_restarts_and_is_on_its_nodes_network() -> None:
    gang = Gang(1)
    gang.change(0, grace=4.2)
    spec = pod_of(gang)["spec"]
    assert (spec["restartPolicy"], spec["hostNetwork"], spec["terminationGracePeriodSeconds"]) == ("Never", True, 5)
    assert "nodeName" not in spec
    [barrier] = [volume for volume in spec["volumes"] if volume["name"] == "barrier"]
    assert barrier["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"] == "metadata.annotations['muster.dev/go']"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"script": "echo"}, "scripts"),
        ({"files": {"x": "y"}}, "files"),
        ({"processes": (("mpirun", "%{hostfile}"),)}, "host files"),
        ({}, ""),
    ],
)
def test_what_cannot_be_done_yet_is_said_at_once_and_makes_no_pod(changes: dict[str, Any], word: str) -> None:
    gang = Gang(2, template=replace(TEMPLATE, **changes))
    assert word in unsupported(gang.intent.workers[0].template)
    assert bool(steps(gang.intent, []).launch) is not bool(word)
    seen_ = observations(gang.intent, [], 1.0)
    assert [(str(one.phase), one.problem) for one in seen_] == ([("Exited", "UNSUPPORTED")] * 2 if word else [])


@pytest.mark.processes
def test_the_barrier_holds_until_the_file_has_something_in_it_and_then_is_the_command(tmp_path: Path) -> None:
    go, code = tmp_path / "go", tmp_path / "code"
    go.touch()
    code.mkdir()
    argv = [
        "/bin/sh",
        "-c",
        BARRIER,
        str(go),
        str(tmp_path / "logs"),
        str(code),
        "/bin/sh",
        "-c",
        "pwd; echo $$; exit 7",
    ]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.3)
    go.write_text("run")
    out, _ = child.communicate(timeout=30)
    assert (out.split(), child.returncode) == ([str(code), str(child.pid)], 7)
    assert (tmp_path / "logs").is_dir()


@pytest.mark.processes
def test_a_pod_that_is_stopped_at_the_barrier_ends_at_once(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = BARRIER.replace("until", f": > '{ready}'; until", 1)  # tells when the trap is set
    child = subprocess.Popen(["/bin/sh", "-c", script, str(tmp_path / "go"), "/", "/", "true"])
    while not ready.exists():
        assert child.poll() is None
    child.terminate()
    assert child.wait(30) == 143


@pytest.mark.parametrize(
    ("status", "problem", "message"),
    [
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "VANISHED", "Evicted: low on memory"),
        ({"phase": "Failed"}, "VANISHED", "Failed: no container ended by itself"),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    container(terminated={"exitCode": 128, "reason": "StartError", "message": "no sh"})
                ],
            },
            "NO_SUCH_COMMAND",
            "no sh",
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [container(waiting={"reason": "ImagePullBackOff", "message": "no such image"})],
            },
            "",
            "ImagePullBackOff: no such image",
        ),
        ({"phase": "Pending", "containerStatuses": [container(waiting={"reason": "ContainerCreating"})]}, "", ""),
        ({}, "", ""),
    ],
)
def test_what_kubernetes_says_against_a_pod_is_passed_on(status: dict[str, Any], problem: str, message: str) -> None:
    pod = read_pod(seen(Gang(1), **status))
    assert pod is not None
    assert (pod.problem, pod.message) == (problem, message)


def test_containers_are_told_apart_by_name_and_all_must_end() -> None:
    ended = {"exitCode": 1, "finishedAt": "2023-11-14T22:13:20Z"}
    status = {
        "phase": "Running",
        "containerStatuses": [container("process-1", terminated=ended), container("process-0", running={})],
    }
    pod = read_pod(seen(Gang(1), **status))
    assert pod is not None
    assert (pod.running, pod.ended) == (True, False)
    assert pod.exits == (RankExit(process=1, code=1, at=1_700_000_000.0),)


def test_the_first_bad_exit_is_told_while_the_rest_of_the_worker_still_runs() -> None:
    gang = Gang(1)
    gang.change(0, phase=WorkerPhase.RUNNING, desired="run")
    ended = {"exitCode": 1, "finishedAt": "2023-11-14T22:13:20Z"}
    status = {
        "phase": "Running",
        "containerStatuses": [container(running={}), container("process-1", terminated=ended)],
    }
    pod = read_pod(seen(gang, **status))
    assert pod is not None
    [one] = observations(gang.intent, [pod], 5.0)
    assert (str(one.phase), [exit_.code for exit_ in one.exits]) == ("Running", [1])


@pytest.mark.parametrize("labels", [None, {}, {EPOCH: "1"}])
def test_a_pod_without_our_labels_is_not_ours(labels: dict[str, str] | None) -> None:
    item = seen(Gang(1))
    item["metadata"]["labels"] = labels
    assert read_pod(item) is None
