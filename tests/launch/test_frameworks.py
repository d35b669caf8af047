"""What each framework's ranks get, beyond what the golden files hold still."""

import pytest

from controller.launch.ports import ports_needed
from controller.launch.render import FRAMEWORKS, LaunchError, unlaunchable
from controller.lifecycle import head_is_done
from muster.resources.job import JobSpec
from muster.states import WorkerPhase
from tests.launch.gangs import job_of, launch
from tests.makers import make_attempt, make_job, make_worker


def test_every_framework_of_the_manifest_is_known_and_no_other() -> None:
    schema = JobSpec.model_json_schema(by_alias=True)["properties"]["framework"]
    assert set(schema["enum"]) == set(FRAMEWORKS)


def test_the_elastic_launcher_meets_at_an_endpoint_and_is_given_no_rank() -> None:
    words = launch(job_of("torchrun-elastic"), 2)[1].processes[0]
    assert words[words.index("--rdzv-endpoint") + 1] == "10.0.0.1:12000"
    assert "--node-rank" not in words
    assert words[words.index("--rdzv-backend") + 1] == "c10d"
    assert words[-3:] == ("train.py", "--lr", "0.1")


def test_deepspeed_has_a_hostfile_of_the_gang() -> None:
    for rank, template in enumerate(launch(job_of("deepspeed"), 2)):
        assert template.files == {"hostfile": "10.0.0.1 slots=2\n10.0.0.2 slots=2\n"}
        assert f"--node_rank={rank}" in template.processes[0]
        assert "--no_ssh" in template.processes[0]


def test_megatron_saves_at_the_signal_and_loads_from_where_it_saves_unless_told_otherwise() -> None:
    checkpoint = {"directory": "/ckpt/m"}
    words = launch(job_of("megatron", checkpoint=checkpoint, command=["python", "p.py", "--load", "/x"]))[0].processes[
        0
    ]
    assert words[-4:] == ("/x", "--exit-signal-handler", "--save", "/ckpt/m")


def test_jax_processes_of_a_worker_share_its_devices() -> None:
    envs = launch(job_of("jax", ranksPerWorker=2), 2, devices=4)[1].process_env
    assert [(env["JAX_PROCESS_ID"], env["JAX_LOCAL_DEVICE_IDS"]) for env in envs] == [("2", "0,1"), ("3", "2,3")]


@pytest.mark.parametrize(("size", "starts"), [("4", ["0", "2"]), ("2", ["0", "1"])])
def test_vllm_deals_its_data_parallel_ranks(size: str, starts: list[str]) -> None:
    job = job_of("vllm", command=["vllm", "serve", "m", f"--data-parallel-size={size}"])
    both = [template.processes[0] for template in launch(job, 2)]
    assert [words[words.index("--data-parallel-start-rank") + 1] for words in both] == starts
    assert ["--headless" in words for words in both] == [False, True]
    with pytest.raises(LaunchError, match="do not go evenly onto 3 workers"):
        launch(job, 3)


@pytest.mark.parametrize(
    ("framework", "words", "said"),
    [
        ("deepspeed", ["deepspeed", "train.py"], "brings its own launcher"),
        ("vllm", ["python", "serve.py"], "the engine's own command"),
        ("vllm", ["vllm", "serve", "m", "--node-rank=1"], "--node-rank is given by Muster"),
        ("sglang", ["python", "-m", "sglang.launch_server", "--nnodes", "2"], "--nnodes is given by Muster"),
        ("megatron", ["torchrun", "pretrain_gpt.py"], "brings its own launcher"),
    ],
)
def test_a_command_that_starts_the_launcher_itself_is_refused(framework: str, words: list[str], said: str) -> None:
    error = unlaunchable({"framework": framework, "command": words})
    assert error is not None
    assert said in error.message


@pytest.mark.parametrize("framework", sorted(FRAMEWORKS))
def test_no_two_workers_of_a_gang_bind_one_port(framework: str) -> None:
    command = (
        ["vllm", "serve", "m"] if FRAMEWORKS[framework].ranks.__module__.endswith("serving") else ["python", "t.py"]
    )
    size = ports_needed({"framework": framework})
    templates = launch(job_of(framework, command=command), 4, ports=size)
    assert len({port for template in templates for port in template.listens}) == 4 * size


@pytest.mark.parametrize(("framework", "done"), [("ray", True), ("verl", True), ("torchrun", False)])
def test_a_driver_that_ended_well_is_the_end_of_its_cluster(framework: str, done: bool) -> None:
    attempt = make_attempt(make_job())
    workers = [
        make_worker(attempt, index, phase=WorkerPhase.RUNNING if index else WorkerPhase.EXITED) for index in range(3)
    ]
    assert head_is_done({"framework": framework}, workers) is done
