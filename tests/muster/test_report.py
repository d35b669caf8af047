"""The reporter: one short JSON line a report, nothing outside Muster, and never an error into the training."""

import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import muster.report as report

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that reads what has been reported so far. Nothing is thinned."""
    target = tmp_path / "report.jsonl"
    monkeypatch.setenv("MUSTER_REPORT", str(target))
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setattr(report, "INTERVAL", 0.0)
    monkeypatch.setattr(report, "_kept", None)
    monkeypatch.setattr(report, "_written_at", -math.inf)
    return lambda: [json.loads(line) for line in target.read_text().splitlines()] if target.exists() else []


def test_progress_says_time_rank_step_and_loss(lines: Any) -> None:
    report.progress(step=12, loss=0.5, lr=1e-3, stage="warm")
    (line,) = lines()
    assert line.pop("time") > 1.7e9
    assert line == {"rank": 3, "step": 12, "loss": 0.5, "lr": 1e-3, "stage": "warm"}


def test_a_loss_is_not_required(lines: Any) -> None:
    report.progress(step=1)
    assert "loss" not in lines()[0]


def test_a_checkpoint_is_an_absolute_path(lines: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report.checkpoint("step-000010")
    report.checkpoint(tmp_path / "step-000020")
    assert [line["checkpoint"] for line in lines()] == [str(tmp_path / "step-000010"), str(tmp_path / "step-000020")]


def test_a_phase_is_a_short_name(lines: Any) -> None:
    report.phase("save")
    report.phase("x" * 1000)
    assert [len(line["phase"]) for line in lines()] == [4, 64]


@pytest.mark.parametrize(("loss", "text"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
def test_a_loss_that_is_not_finite_stays_valid_json(lines: Any, loss: float, text: str) -> None:
    report.progress(step=1, loss=loss)
    assert lines()[0]["loss"] == text


def test_scalars_of_number_libraries_are_numbers(lines: Any) -> None:
    numpy = pytest.importorskip("numpy")
    report.progress(step=numpy.int64(7), loss=numpy.float32(0.25), norm=numpy.float64(2.0))
    line = lines()[0]
    assert (line["step"], line["loss"], line["norm"]) == (7, 0.25, 2.0)


def test_a_line_that_would_be_too_long_keeps_what_matters(lines: Any) -> None:
    report.progress(step=5, loss=1.0, **{f"metric{n}": "x" * 200 for n in range(50)})
    line = lines()[0]
    assert line["step"] == 5
    assert "metric0" not in line


def test_a_rank_without_a_number_is_null(lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "chief")
    report.phase("load")
    assert lines()[0]["rank"] is None


def test_outside_muster_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MUSTER_REPORT", "MUSTER_RESUME_FROM", "MUSTER_CHECKPOINT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    report.progress(step=1, loss=1.0)
    report.checkpoint("here")
    report.phase("train")
    assert report.resume_from() is None
    assert report.checkpoint_dir() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["/nonexistent/folder/report", "/", "\0", "/proc/version"])
def test_a_report_that_cannot_be_written_does_not_disturb_the_training(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "\0" in target:
        monkeypatch.setattr(os, "environ", {"MUSTER_REPORT": target})
    else:
        monkeypatch.setenv("MUSTER_REPORT", target)
    report.progress(step=1, loss=1.0)
    report.checkpoint("x")
    report.phase("x")


@pytest.mark.parametrize("value", ["many", None, object(), [1]])
def test_values_that_make_no_sense_do_not_disturb_the_training(lines: Any, value: Any) -> None:
    report.progress(step=value)
    report.progress(step=1, loss=value)
    report.progress(step=2, loss=1.0, extra=value)
    report.checkpoint(value)
    assert [line["step"] for line in lines() if "step" in line] == [1, 2]


def test_resuming_and_the_folder_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_RESUME_FROM", "/ckpt/step-000010")
    monkeypatch.setenv("MUSTER_CHECKPOINT_DIR", "/ckpt")
    assert (report.resume_from(), report.checkpoint_dir()) == ("/ckpt/step-000010", "/ckpt")
    monkeypatch.setenv("MUSTER_RESUME_FROM", "")
    assert report.resume_from() is None


def test_fast_steps_are_thinned_and_the_newest_precedes_what_follows(
    lines: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "INTERVAL", 3600.0)
    for step in range(1, 101):
        report.progress(step=step)
    assert [line["step"] for line in lines()] == [1]
    report.checkpoint("/ckpt/step-000100")
    assert [line.get("step", "saved") for line in lines()] == [1, 100, "saved"]


def test_threads_and_ranks_share_a_file_without_torn_lines(lines: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: report.progress(step=n, note="y" * 200), range(400)))
    assert sorted(line["step"] for line in lines()) == list(range(400))


def test_the_last_step_is_written_when_the_program_ends(tmp_path: Path) -> None:
    target = tmp_path / "report"
    program = "import muster.report as r\nfor n in range(1, 51): r.progress(step=n)"
    environment = {**os.environ, "MUSTER_REPORT": str(target), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert json.loads(target.read_text().splitlines()[-1])["step"] == 50


def test_the_reporter_needs_only_the_standard_library() -> None:
    program = (
        "import sys, muster.report\n"
        "foreign = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names) - {'muster', '__main__'}\n"
        "sys.exit(repr(foreign) if foreign else 0)"
    )
    subprocess.run(
        [sys.executable, "-S", "-E", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{program}"], check=True
    )
