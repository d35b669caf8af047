"""Decisions that are made again from their recording come out the same, or it is said what does not."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.recorder import SUFFIX, Recorder, surplus
from controller.replay import main
from controller.scheduling.index import ClusterIndex, build
from controller.scheduling.planner import plan
from controller.simulation.recording import BadRecording, pack, replay, unpack
from tests.makers import NOW, make_node
from tests.simulation.test_forecast import runs, waits


def world(sizes: list[tuple[int, int]]) -> ClusterIndex:
    """A node in use, two that are free, and gangs that wait."""
    jobs = [
        waits(f"j{number}", pods, devices, after=number, env={"TOKEN": "hush"}, script="secret")
        for number, (pods, devices) in enumerate(sizes)
    ]
    nodes = [make_node(f"n{number}") for number in range(3)]
    return build([*nodes, *runs("a", "n0", timeLimit="10m"), *jobs], revision=9)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 8)), max_size=5))
def test_what_is_recorded_is_planned_again_alike_and_carries_no_secrets(sizes: list[tuple[int, int]]) -> None:
    index = world(sizes)
    packed = pack(index, NOW, plan(index, NOW))
    recording = unpack(packed)
    assert replay(recording) == []
    assert all("env" not in job.spec and "script" not in job.spec for job in recording.jobs)


def test_another_plan_is_told_job_by_job() -> None:
    index = world([(1, 8), (3, 8)])
    recording = unpack(pack(index, NOW, plan(index, NOW)))
    other = replace(recording, nodes=[replace(node, cordoned=True) for node in recording.nodes])
    said = replay(other)
    assert said[0].startswith("groups of default/j0: recorded [{")
    assert said[0].endswith("now nothing")


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\x1f\x8b\x08"])
def test_what_is_no_recording_is_refused(data: bytes) -> None:
    with pytest.raises(BadRecording):
        unpack(data)


def test_a_cut_recording_is_refused() -> None:
    index = world([(1, 8)])
    packed = pack(index, NOW, plan(index, NOW))
    for size in (10, len(packed) // 2, len(packed) - 1):
        with pytest.raises(BadRecording):
            unpack(packed[:size])


def test_the_recorder_keeps_what_decides_and_stays_within_its_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder(tmp_path / "new", 2**20)
    for number, sizes in enumerate([[(1, 8)], [(3, 8)], [(3, 8)]]):
        index = replace(world(sizes), revision=number)
        recorder._queue.put((index, NOW, plan(index, NOW)))
    recorder.close()
    files = sorted((tmp_path / "new").iterdir())
    assert [path.name[:12] for path in files] == ["000000000000", "000000000001"]
    assert all(path.suffix == SUFFIX for path in files)
    assert main([str(path) for path in files]) == 0
    assert capsys.readouterr().out.count("the plan is the same") == 2
    assert main(["--json", str(files[0])]) == 0
    assert json.loads(capsys.readouterr().out)[0]["starts"] == 1
    (tmp_path / "bad").write_bytes(b"no")
    assert main([str(tmp_path / "bad"), str(files[0])]) == 2
    assert main([str(tmp_path / "missing")]) == 2


def test_the_oldest_go_first_and_the_newest_stays() -> None:
    assert surplus([("1", 40), ("2", 40), ("3", 40)], 100) == ["1"]
    assert surplus([("1", 400)], 100) == []
