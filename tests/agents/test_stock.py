"""Checkpoint stock: what is complete, what is half written and why, in each format."""

import asyncio
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.runtime import stock
from agents.runtime.stocktaking import SCRIPT


def make_dcp(folder: Path, shards: dict[str, int], protocol: int = 4) -> None:
    """As torch.distributed.checkpoint lays it out: extents in a pickle, shards beside it."""
    folder.mkdir(parents=True)
    infos = [
        {"relative_path": name, "offset": offset, "length": size // 2}
        for name, size in shards.items()
        for offset in (0, size - size // 2)
    ]
    (folder / ".metadata").write_bytes(pickle.dumps({"storage_data": infos}, protocol=protocol))
    for name, size in shards.items():
        (folder / name).write_bytes(b"x" * size)


def only(directory: Path, format_: str = "auto") -> dict[str, Any]:
    (item,) = stock.take(str(directory), format_)
    return item


def test_a_whole_dcp_checkpoint_is_complete(tmp_path: Path) -> None:
    make_dcp(tmp_path / "step-000120", {"__0_0.distcp": 100, "__1_0.distcp": 50})
    item = only(tmp_path)
    assert (item["step"], item["format"], item["complete"], item["why"]) == (120, "dcp", True, "")
    assert item["path"] == str(tmp_path / "step-000120")
    assert item["manifest"]["__1_0.distcp"] == 50
    assert item["size"] == sum(item["manifest"].values())
    assert item["modified_at"] == (tmp_path / "step-000120" / ".metadata").stat().st_mtime


def break_metadata(folder: Path) -> None:
    data = (folder / ".metadata").read_bytes()
    (folder / ".metadata").write_bytes(data[: len(data) // 2])


DAMAGES = [
    ("no metadata yet", lambda f: (f / ".metadata").unlink(), "written last"),
    ("metadata cut short", break_metadata, "cut short"),
    ("metadata empty", lambda f: (f / ".metadata").write_bytes(b""), "cut short"),
    ("metadata of nothing", lambda f: (f / ".metadata").write_bytes(pickle.dumps({})), "names no files"),
    ("a shard missing", lambda f: (f / "__1_0.distcp").unlink(), "__1_0.distcp is missing"),
    ("a shard empty", lambda f: (f / "__1_0.distcp").write_bytes(b""), "0 bytes of at least 50"),
    ("a shard cut short", lambda f: (f / "__0_0.distcp").write_bytes(b"x" * 99), "99 bytes of at least 100"),
]


@pytest.mark.parametrize(("damage", "why"), [row[1:] for row in DAMAGES], ids=[row[0] for row in DAMAGES])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_half_written_dcp_checkpoint_is_not_complete(tmp_path: Path, damage: Any, why: str, protocol: int) -> None:
    make_dcp(tmp_path / "step-7", {"__0_0.distcp": 100, "__1_0.distcp": 50}, protocol)
    assert only(tmp_path)["complete"]
    damage(tmp_path / "step-7")
    item = only(tmp_path)
    assert (item["step"], item["complete"]) == (7, False)
    assert why in item["why"]


def test_metadata_is_never_executed(tmp_path: Path) -> None:
    """A pickle may run code when it is loaded; this one would leave a file behind."""

    class Trap:
        def __reduce__(self) -> Any:
            return os.system, (f"touch {tmp_path}/executed",)

    make_dcp(tmp_path / "step-1", {"__0_0.distcp": 10})
    (tmp_path / "step-1" / ".metadata").write_bytes(
        pickle.dumps([Trap(), {"relative_path": "__0_0.distcp"}], protocol=4)
    )
    assert only(tmp_path)["complete"]
    assert not (tmp_path / "executed").exists()


def test_huge_metadata_is_searched_for_names_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_dcp(tmp_path / "step-7", {"__0_0.distcp": 100, "__1_0.distcp": 50})
    monkeypatch.setattr(stock, "WHOLE_METADATA", 1)
    assert only(tmp_path)["complete"]
    (tmp_path / "step-7" / "__1_0.distcp").unlink()
    assert "is missing" in only(tmp_path)["why"]


MARKERS = [
    ("an empty marker", "", True, ""),
    ("sizes that hold", "model.npz 4\nsub/opt 2\n", True, ""),
    ("a file of another size", "model.npz 5\n", False, "4 bytes of 5"),
    ("a file that is missing", "other 5\n", False, "other is missing"),
    ("free text", "written by step 7 of the trainer\n", True, ""),
    ("no marker", None, False, "written last"),
]


@pytest.mark.parametrize(("text", "complete", "why"), [row[1:] for row in MARKERS], ids=[row[0] for row in MARKERS])
def test_marker_checkpoints(tmp_path: Path, text: str | None, complete: bool, why: str) -> None:
    folder = tmp_path / "step-7"
    (folder / "sub").mkdir(parents=True)
    (folder / "model.npz").write_text("abcd")
    (folder / "sub" / "opt").write_text("ab")
    if text is not None:
        (folder / "COMPLETE").write_text(text)
    item = only(tmp_path, "marker")
    assert (item["step"], item["format"], item["complete"]) == (7, "marker", complete)
    assert why in item["why"]


def test_auto_tells_the_formats_apart_and_leaves_other_folders_alone(tmp_path: Path) -> None:
    make_dcp(tmp_path / "step-3", {"__0_0.distcp": 10})
    (tmp_path / "step-2").mkdir()
    (tmp_path / "step-2" / "COMPLETE").touch()
    (tmp_path / "step-4").mkdir()
    (tmp_path / "run7").mkdir()
    (tmp_path / "logs").mkdir()
    (tmp_path / "step-9").write_text("a file")
    found = [(item["step"], item["format"], item["complete"]) for item in stock.take(str(tmp_path), "auto")]
    assert found == [(4, "unknown", False), (3, "dcp", True), (2, "marker", True)]


@pytest.mark.parametrize(
    ("name", "step"),
    [("step-10", 10), ("epoch=3-step=120", 120), ("checkpoint_7", 7), ("000050", 50), ("global_step12", 12)],
)
def test_the_step_is_the_last_number_of_the_name(tmp_path: Path, name: str, step: int) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "COMPLETE").touch()
    assert only(tmp_path)["step"] == step


@pytest.mark.parametrize("name", ["step-10.tmp", ".step-10", "step-10_partial"])
def test_a_temporary_name_is_not_complete(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "COMPLETE").touch()
    assert "temporary name" in only(tmp_path)["why"]


def test_the_newest_are_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stock, "NEWEST", 3)
    for step in range(6):
        (tmp_path / f"step-{step}").mkdir()
    assert [item["step"] for item in stock.take(str(tmp_path), "marker")] == [5, 4, 3]


def ask(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-I", "-S", str(SCRIPT), *arguments]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)  # type: ignore[no-any-return]


@pytest.mark.processes
def test_the_script_makes_the_directory_and_answers(tmp_path: Path) -> None:
    assert ask(str(tmp_path / "a" / "b"), "auto", "--prepare") == {"items": []}
    assert (tmp_path / "a" / "b").is_dir()
    assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.processes
def test_the_script_tells_what_is_wrong(tmp_path: Path) -> None:
    answer = ask(str(tmp_path / "none"), "auto")
    assert answer["errno"] == 2
    assert str(tmp_path / "none") in answer["error"]


@pytest.mark.processes
def test_a_mount_that_hangs_does_not_hang_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agents.runtime import stocktaking
    from agents.runtime.children import Children

    hanging = tmp_path / "hang.py"
    hanging.write_text("import time\ntime.sleep(1000)\n")
    monkeypatch.setattr(stocktaking, "SCRIPT", hanging)

    async def take() -> stocktaking.Stock:
        return await stocktaking.take_stock(Children(), tmp_path, "auto", timeout=0.5)

    taken = asyncio.run(take())
    assert taken.items is None
    assert "did not answer" in taken.error


@pytest.mark.torch
@pytest.mark.processes
def test_the_rule_holds_for_what_torch_writes(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    save = (
        "import sys, torch, torch.distributed.checkpoint as dcp\n"
        "model = torch.nn.Linear(64, 64)\n"
        "dcp.save({'model': model.state_dict(), 'step': 5, 'rng': torch.get_rng_state()}, checkpoint_id=sys.argv[1])\n"
    )
    subprocess.run([sys.executable, "-c", save, str(tmp_path / "step-5")], check=True, capture_output=True, timeout=170)
    item = only(tmp_path)
    assert (item["complete"], item["format"], item["why"]) == (True, "dcp", "")
    shard = next((tmp_path / "step-5").glob("*.distcp"))
    os.truncate(shard, shard.stat().st_size - 1)
    assert f"{shard.name} has" in only(tmp_path)["why"]
    shard.unlink()
    assert only(tmp_path)["why"] == f"{shard.name} is missing"
