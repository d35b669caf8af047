"""The example trainers by themselves: a run that is killed and resumed ends with the same bits as one that is not."""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
RANKS = 4
STEPS = 60
DEADLINE = 150.0

TRAINERS = [
    pytest.param("light_digits.py", id="numpy over TCP"),
    pytest.param(
        "ddp_digits.py",
        id="PyTorch DDP over gloo",
        marks=[
            pytest.mark.torch,
            pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"),
        ],
    ),
]
pytestmark = pytest.mark.processes


class Launcher:
    """Starts ranks by hand, as a launcher would, and leaves none behind."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ranks = folder, list[subprocess.Popen[str]]()

    def start(self, program: str, output: str, resume: Path | None = None, step_seconds: float = 0) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        shared = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")},
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "WORLD_SIZE": str(RANKS),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "STEPS": str(STEPS),
            "STEP_SECONDS": str(step_seconds),
            "MUSTER_CHECKPOINT_DIR": str(self.folder / output / "checkpoints"),
            "MUSTER_RESUME_FROM": str(resume or ""),
            "MUSTER_REPORT": str(self.folder / f"{output}.report"),
        }
        command = [sys.executable, str(ROOT / "examples" / program), "--output", str(self.folder / output)]
        for rank in range(RANKS):
            environment = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            with open(self.folder / f"{output}-{rank}.log", "a") as log:
                self.ranks.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, text=True))

    def finish(self) -> list[int]:
        deadline = time.monotonic() + DEADLINE
        codes = [rank.wait(max(0.1, deadline - time.monotonic())) for rank in self.ranks]
        self.ranks.clear()
        return codes

    def kill(self) -> None:
        for rank in self.ranks:
            rank.kill()
            rank.wait()
        self.ranks.clear()

    def reports(self, output: str) -> list[dict[str, object]]:
        path = self.folder / f"{output}.report"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def wait_for_step(self, output: str, step: int) -> None:
        deadline = time.monotonic() + DEADLINE
        while not any(line.get("step", 0) >= step for line in self.reports(output)):  # type: ignore[operator]
            assert time.monotonic() < deadline, (self.folder / f"{output}-0.log").read_text()[-2000:]
            assert all(rank.poll() is None for rank in self.ranks), (self.folder / f"{output}-0.log").read_text()[
                -2000:
            ]
            time.sleep(0.05)


@pytest.fixture(scope="module", params=TRAINERS)
def program(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def calm(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """A finished run without a fault, in a folder where an earlier one has left a half-written checkpoint."""
    launcher = Launcher(tmp_path_factory.mktemp("calm"))
    half = launcher.folder / "run" / "checkpoints" / "step-000030"
    half.mkdir(parents=True)
    (half / "rubbish").write_text("half")
    launcher.start(program, "run")
    assert launcher.finish() == [0] * RANKS, (launcher.folder / "run-0.log").read_text()[-2000:]
    yield launcher
    launcher.kill()


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Launcher]:
    launcher = Launcher(tmp_path)
    yield launcher
    launcher.kill()


def test_a_checkpoint_appears_whole_is_reported_and_replaces_a_half_written_one(program: str, calm: Launcher) -> None:
    folder = calm.folder / "run" / "checkpoints"
    saved = [f"step-{step:06d}" for step in range(10, STEPS + 1, 10)]
    assert sorted(path.name for path in folder.iterdir()) == saved
    reported = [Path(str(line["checkpoint"])).name for line in calm.reports("run") if "checkpoint" in line]
    assert reported == saved
    for checkpoint in map(folder.joinpath, saved):
        assert not (checkpoint / "rubbish").exists()
        if program == "light_digits.py":
            listed = dict(line.split() for line in (checkpoint / "COMPLETE").read_text().splitlines())
            assert listed == {path.name: str(path.stat().st_size) for path in checkpoint.glob("*.npy")}
        else:
            assert (checkpoint / ".metadata").stat().st_size > 0


def test_a_killed_and_resumed_run_ends_with_the_same_bits(program: str, calm: Launcher, launcher: Launcher) -> None:
    launcher.start(program, "run", step_seconds=0.1)
    launcher.wait_for_step("run", 25)
    launcher.ranks[2].send_signal(signal.SIGKILL)
    codes = launcher.finish()
    assert codes[2] == -signal.SIGKILL
    assert all(code != 0 for code in codes), "no rank survives the loss of another"
    saved = sorted((launcher.folder / "run" / "checkpoints").glob("step-*"))
    assert 20 <= int(saved[-1].name[-6:]) < STEPS

    launcher.start(program, "run", resume=saved[-1])
    assert launcher.finish() == [0] * RANKS
    weights = [np.load(run.folder / "run" / "weights.npz") for run in (calm, launcher)]
    assert sorted(weights[0].files) == sorted(weights[1].files)
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0].files)
    curves = [json.loads((run.folder / "run" / "losses.json").read_text()) for run in (calm, launcher)]
    assert curves[0] == curves[1]
    assert len(curves[0]) == STEPS
    assert curves[0][-1] < 0.5 * curves[0][0], "it learns"
