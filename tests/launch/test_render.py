"""Templates as a whole, and what every rank finds in its environment."""

import re
from typing import Any

import pytest

from agents.runtime.complete import Site, complete
from muster.launch import LaunchTemplate
from muster.protocol import Assignment
from tests.launch.gangs import job_of, launch
from tests.launch.golden import CASES, FOLDER, rendered

SITE = Site(
    python="/usr/bin/python3",
    interface="eth0",
    address="10.0.0.1",
    dir="/w/dir",
    logs="/w/logs",
    report="/w/report.jsonl",
    resume="/ckpt/step-5",
)


def completed(template: LaunchTemplate) -> Any:
    assignment = Assignment(
        worker_uid="w", attempt="a", job="j", job_uid="ju", namespace="n", scope="gang", number=1, epoch=1,
        role="worker", index=0, desired="prepare", revision=1, template=template,
    )  # fmt: skip
    return complete(assignment, SITE, {}, template.workdir)


@pytest.mark.parametrize("case", CASES)
def test_templates_are_as_they_have_always_been(case: str) -> None:
    assert rendered(case) == (FOLDER / f"{case}.json").read_text()


def test_ranks_are_dense_and_follow_the_workers() -> None:
    templates = launch(job_of("command", ranksPerWorker=3), 4)
    assert [(template.first_rank, template.ranks) for template in templates] == [(0, 3), (3, 3), (6, 3), (9, 3)]
    ranks = [int(env["RANK"]) for template in templates for env in template.process_env]
    assert ranks == list(range(12))
    assert {env["WORLD_SIZE"] for template in templates for env in template.process_env} == {"12"}
    assert [env["LOCAL_RANK"] for env in templates[2].process_env] == ["0", "1", "2"]


@pytest.mark.parametrize("framework", ["command", "torchrun"])
def test_all_workers_agree_on_the_master_and_each_has_ports_of_its_own(framework: str) -> None:
    templates = launch(job_of(framework), 4)
    assert {template.env["MUSTER_MASTER_ADDR"] for template in templates} == {"10.0.0.1"}
    assert {template.env["MUSTER_MASTER_PORT"] for template in templates} == {"12000"}
    assert {template.env["MUSTER_NODE_ADDRESSES"] for template in templates} == {"10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4"}
    assert templates[2].ports == templates[2].listens == (12016, 12017, 12018, 12019)
    assert templates[2].env["MUSTER_PORTS"] == "12016,12017,12018,12019"


@pytest.mark.parametrize("framework", ["command", "torchrun"])
def test_the_users_environment_wins_over_everything(framework: str) -> None:
    own = {
        "OMP_NUM_THREADS": "8",
        "NCCL_SOCKET_IFNAME": "^lo",
        "GLOO_SOCKET_IFNAME": "ib0",
        "RANK": "7",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONUNBUFFERED": "0",
    }
    for template in launch(job_of(framework, env=own), 2):
        for process in completed(template):
            assert process.env.items() >= own.items()


def test_nothing_that_the_user_wrote_is_a_placeholder() -> None:
    words = ["sh", "-c", "date +%{x} && curl -w '%{http_code}' %%{y}"]
    template = launch(job_of("command", command=words, env={"FORMAT": "%{resume}"}))[0]
    process = completed(template)[0]
    assert list(process.argv) == words
    assert process.env["FORMAT"] == "%{resume}"


@pytest.mark.parametrize("framework", ["command", "torchrun"])
def test_an_agent_can_complete_every_placeholder(framework: str) -> None:
    for template in launch(job_of(framework, checkpoint={"directory": "ckpt"}), 2):
        for process in completed(template):
            assert not re.search(r"%\{", " ".join([*process.argv, *process.env.values()]))
            assert process.env["MUSTER_CHECKPOINT_DIR"] == "/w/dir/ckpt"
            assert process.env["MUSTER_RESUME_FROM"] == "/ckpt/step-5"
            assert process.env["MUSTER_REPORT"] == "/w/report.jsonl"
            assert process.env["GLOO_SOCKET_IFNAME"] == "eth0"


@pytest.mark.parametrize("framework", ["command", "torchrun"])
def test_a_script_is_run_by_the_shell_with_its_text_untouched(framework: str) -> None:
    text = "echo %{x} $MUSTER_WORKER_INDEX\nexec python train.py\n"
    template = launch(job_of(framework, script=text))[0]
    assert template.script == text
    assert completed(template)[0].argv[-2:] == ("/bin/sh", "/w/dir/script")


@pytest.mark.parametrize(
    ("kind", "variable"),
    [
        ("h100", "CUDA_VISIBLE_DEVICES"),
        ("mi300x", "ROCR_VISIBLE_DEVICES"),
        ("910b3", "ASCEND_RT_VISIBLE_DEVICES"),
    ],
)
def test_each_vendors_devices_are_shown_by_its_own_variable(kind: str, variable: str) -> None:
    env = launch(job_of("command"), devices=3, kind=kind)[0].env
    assert env[variable] == "2,3,4"
    assert len([name for name in env if name.endswith("VISIBLE_DEVICES")]) == 1


@pytest.mark.parametrize(("devices", "kind"), [(0, None), (2, "strange-npu")])
def test_without_devices_or_with_an_unknown_kind_no_variable_is_made_up(devices: int, kind: str | None) -> None:
    env = launch(job_of("command"), devices=devices, kind=kind)[0].env
    assert not [name for name in env if "VISIBLE" in name]


def test_a_resume_point_goes_to_every_worker_and_a_first_attempt_has_none() -> None:
    assert {t.resume for t in launch(job_of("command"), 2, resume="/ckpt/a b")} == {"/ckpt/a b"}
    assert launch(job_of("command"))[0].resume == ""


def test_two_attempts_differ_in_rendezvous_and_epoch() -> None:
    env = launch(job_of("command"))[0].env
    assert (env["MUSTER_RENDEZVOUS_ID"], env["MUSTER_EPOCH"], env["MUSTER_ATTEMPT"]) == ("digits-3-abcd", "3", "3")


def test_what_the_manifest_says_of_progress_and_workdir_reaches_the_agent() -> None:
    template = launch(job_of("command", progress={"regex": "(?P<step>x)"}, workdir="rel/%{dir}"))[0]
    assert (template.progress_regex, template.workdir) == ("(?P<step>x)", "rel/%{dir}")
