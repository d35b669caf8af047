"""torchrun: what becomes of the user's command line, and that a real launcher does what the template means."""

import importlib.util
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from controller.launch.render import LaunchError, unlaunchable
from controller.launch.torchrun import LOG_REGEX
from muster.launch import LaunchTemplate
from tests.launch.gangs import job_of, launch


def argv(*command: str, workers: int = 1, worker: int = 0, **spec: object) -> tuple[str, ...]:
    return launch(job_of("torchrun", command=list(command), **spec), workers)[worker].processes[0]


def flag(words: tuple[str, ...], name: str) -> str:
    return words[words.index(name) + 1]


@pytest.mark.parametrize(
    ("command", "interpreter", "program"),
    [
        (["python", "train.py", "-u"], ["python"], ["train.py", "-u"]),
        (["/opt/env/bin/python3.11", "train.py"], ["/opt/env/bin/python3.11"], ["train.py"]),
        (["python3", "-u", "train.py"], ["python3"], ["train.py"]),
        (["python", "-m", "pkg.train", "--x"], ["python"], ["--module", "pkg.train", "--x"]),
        (["python", "-u", "-m", "pkg"], ["python"], ["--module", "pkg"]),
        (["python", "-X", "dev", "t.py"], ["python"], ["--no-python", "python", "-X", "dev", "t.py"]),
        (["python", "-c", "print(1)"], ["python"], ["--no-python", "python", "-c", "print(1)"]),
        (["python"], ["python"], ["--no-python", "python"]),
        (["./train", "--x"], ["%{python}"], ["--no-python", "./train", "--x"]),
        (["pythonic", "x"], ["%{python}"], ["--no-python", "pythonic", "x"]),
    ],
)
def test_the_users_interpreter_runs_the_launcher_and_other_programs_run_as_they_are(
    command: list[str], interpreter: list[str], program: list[str]
) -> None:
    words = list(argv(*command))
    assert words[:3] == [*interpreter, "-m", "torch.distributed.run"]
    assert words[words.index("--redirects") + 2 :] == program


@pytest.mark.parametrize(
    "command",
    [
        ["torchrun", "--nproc-per-node=2", "train.py"],
        ["/env/bin/torchrun", "train.py"],
        ["python", "-m", "torch.distributed.run", "train.py"],
        ["python", "-u", "-m", "torch.distributed.run", "train.py"],
    ],
)
def test_a_launcher_inside_the_launcher_is_refused_in_plain_words(command: list[str]) -> None:
    with pytest.raises(LaunchError, match=r"name the program alone"):
        argv(*command)
    error = unlaunchable(job_of("torchrun", command=command).spec)
    assert error is not None
    assert (error.field, error.found) == ("spec.command", " ".join(command))


@pytest.mark.parametrize("framework", ["command", "torchrun"])
def test_a_plain_program_goes_with_every_framework(framework: str) -> None:
    assert unlaunchable(job_of(framework).spec) is None
    assert unlaunchable(job_of(framework, script="echo").spec) is None


def test_every_worker_names_the_same_rendezvous_and_its_own_rank() -> None:
    for worker in range(4):
        words = argv("python", "t.py", workers=4, worker=worker)
        assert flag(words, "--nnodes") == "4"
        assert flag(words, "--node-rank") == str(worker)
        assert (flag(words, "--master-addr"), flag(words, "--master-port")) == ("10.0.0.1", "12000")
        assert (flag(words, "--rdzv-backend"), flag(words, "--rdzv-id")) == ("static", "digits-3-abcd")
        assert flag(words, "--max-restarts") == "0"


@pytest.mark.parametrize(
    ("devices", "spec", "ranks"), [(8, {}, 8), (0, {}, 1), (8, {"ranksPerWorker": 2}, 2), (0, {"ranksPerWorker": 3}, 3)]
)
def test_a_worker_has_a_rank_for_each_device_unless_the_manifest_says_otherwise(
    devices: int, spec: dict[str, int], ranks: int
) -> None:
    first, second = launch(job_of("torchrun", **spec), 2, devices=devices)
    assert flag(first.processes[0], "--nproc-per-node") == str(ranks)
    assert (first.ranks, second.first_rank) == (ranks, ranks)
    assert first.env["MUSTER_WORLD_SIZE"] == str(2 * ranks)


@pytest.mark.parametrize(
    ("spec", "seconds"), [({}, "30"), ({"checkpoint": {"directory": "/c", "grace": "1m30s"}}, "90")]
)
def test_the_launcher_gives_its_ranks_the_jobs_whole_grace(spec: dict[str, object], seconds: str) -> None:
    assert launch(job_of("torchrun", **spec))[0].env["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == seconds


PROGRAM = """
import os, sys
import torch.distributed as dist

print("out of rank", os.environ["RANK"], flush=True)
print("err of rank", os.environ["RANK"], file=sys.stderr, flush=True)
dist.init_process_group("gloo")
seen = [None] * dist.get_world_size()
dist.all_gather_object(seen, os.environ["RANK"])
print("together", seen, flush=True)
dist.destroy_process_group()
"""

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def spawn(template: LaunchTemplate, folder: Path, port: int) -> subprocess.Popen[bytes]:
    places = {"%{logs}": str(folder), "%{interface}": "lo", "10.0.0.1": "127.0.0.1", "12000": str(port)}
    words = [sys.executable, *template.processes[0][1:]]
    for name, value in places.items():
        words = [word.replace(name, value) for word in words]
    env = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONUNBUFFERED": "1"}
    with (folder / "worker.log").open("wb") as log:
        return subprocess.Popen(words, env={**os.environ, **env}, cwd=folder, stdout=log, stderr=log)


@needs_torch
@pytest.mark.torch
@pytest.mark.processes
def test_a_real_gang_meets_and_its_ranks_logs_lie_where_the_pattern_says(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    templates = launch(job_of("torchrun", command=["python", str(tmp_path / "train.py")]), 2, devices=2)
    folders = [tmp_path / "w0", tmp_path / "w1"]
    for folder in folders:
        folder.mkdir()
    port = free_port()
    processes = [spawn(template, folder, port) for template, folder in zip(templates, folders, strict=True)]
    try:
        assert [process.wait(120) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
    texts: dict[tuple[int, str], str] = {}
    for worker, folder in enumerate(folders):
        for path in folder.rglob("*.log"):
            match = re.fullmatch(LOG_REGEX, str(path.relative_to(folder)))
            if match:
                texts[2 * worker + int(match["rank"]), match["stream"]] = path.read_text()
    assert texts.keys() == {(rank, stream) for rank in range(4) for stream in ("stdout", "stderr")}
    for rank in range(4):
        assert f"out of rank {rank}\n" in texts[rank, "stdout"]
        assert "together ['0', '1', '2', '3']" in texts[rank, "stdout"]
        assert f"err of rank {rank}\n" in texts[rank, "stderr"]
    assert "out of rank" not in (folders[0] / "worker.log").read_text(), "nothing is written twice"


@needs_torch
@pytest.mark.torch
@pytest.mark.processes
def test_launchers_of_two_attempts_at_one_port_never_start_a_rank(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    job = job_of("torchrun", command=["python", str(tmp_path / "train.py")])
    templates = list(launch(job, 2, devices=1))
    stale = [word.replace("digits-3-abcd", "digits-2-wxyz") for word in templates[1].processes[0]]
    stale[3:3] = ["--rdzv-conf", "timeout=3"]
    folders = [tmp_path / "new", tmp_path / "old"]
    for folder in folders:
        folder.mkdir()
    port = free_port()
    new = spawn(templates[0], folders[0], port)
    old = subprocess.Popen(
        [sys.executable, *(w.replace("10.0.0.1", "127.0.0.1").replace("12000", str(port)).replace("%{logs}", ".") for w in stale[1:])],
        cwd=folders[1], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert old.wait(120) != 0, "it gives up when its own timeout has passed"
        assert new.poll() is None, "the live attempt goes on waiting for its own"
        assert not [path for path in tmp_path.rglob("*.log") if path.name == "stdout.log" and path.read_text()]
    finally:
        for process in (new, old):
            process.kill()
            process.wait()
