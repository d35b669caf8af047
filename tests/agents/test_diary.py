"""Diaries: what the shim writes, what the agent reads, whatever a crash or a disk does to them."""

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.runtime import diary
from agents.shims.diary import Diary
from muster.protocol import RankExit


def shim(revision: int = 1, **more: Any) -> dict[str, Any]:
    return {"event": "shim", "t": 1.0, "at": 10.0, "pid": 5, "start": 7, "boot_id": "b", "revision": revision, **more}


def exit_(process: int, **how: Any) -> dict[str, Any]:
    return {"event": "exit", "at": 12.0, "process": process, "rank": process, "pid": 6 + process, **how}


GO = {"event": "go", "at": 11.0}
STARTED = {"event": "started", "at": 11.5, "process": 0, "rank": 0, "pid": 6, "start": 9}
DEAD = {"event": "dead", "at": 13.0, "why": "", "exits": []}


def test_a_whole_life_folds_into_its_history() -> None:
    history = diary.fold([shim(), GO, STARTED, exit_(0, code=3), DEAD])
    assert history == diary.History(
        boot_id="b",
        revision=1,
        shim_pid=5,
        ready_at=10.0,
        went=True,
        running_at=11.5,
        started=(diary.Started(0, 0, 6, 9),),
        exits=(RankExit(process=0, rank=0, code=3, at=12.0),),
        over=True,
        over_at=13.0,
    )


@pytest.mark.parametrize(
    ("events", "problem", "over"),
    [
        ([shim(), GO, STARTED], "", False),
        ([shim(), GO, STARTED, {"event": "fenced", "at": 12.0}, exit_(0, signal=9), DEAD], "FENCED", True),
        ([shim(), GO, STARTED, {"event": "vanished", "at": 12.0}], "VANISHED", True),
        ([{"event": "refused", "at": 1.0, "problem": "NO_SUCH_COMMAND", "message": "m"}], "NO_SUCH_COMMAND", True),
        ([shim(), GO, exit_(0, code=127, errno=errno.ENOENT), DEAD], "NO_SUCH_COMMAND", True),
        ([shim(), GO, exit_(0, code=127, errno=errno.EACCES), DEAD], "PERMISSION", True),
        ([shim(), GO, exit_(0, code=127, errno=errno.ENOMEM), DEAD], "LAUNCH_FAILED", True),
        ([shim(), GO, exit_(0, code=127), DEAD], "", True),
        ([shim(), {"event": "stop", "why": "x", "at": 2.0}, DEAD], "", True),
        ([shim(), {"event": "from a newer version", "at": 2.0}], "", False),
    ],
)
def test_how_it_ended(events: list[dict[str, Any]], problem: str, over: bool) -> None:
    history = diary.fold(events)
    assert (history.problem, history.over) == (problem, over)


def test_a_replaced_shim_is_no_end() -> None:
    replaced = [shim(1), {"event": "stop", "why": diary.REPLACED, "at": 11.0}, DEAD]
    assert not diary.fold(replaced).over
    history = diary.fold([*replaced, shim(2)])
    assert (history.revision, history.over, history.stopped) == (2, False, "")


def test_an_end_after_the_start_stays_one_whatever_comes() -> None:
    assert diary.fold([shim(), GO, DEAD, shim(2)]).over


def test_torn_lines_and_reserved_room_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "diary.jsonl"
    path.write_bytes(json.dumps(GO).encode() + b'\n{"event": "exi' + b"\n" * 100)
    assert diary.read(path) == [GO]
    assert diary.read(tmp_path / "none") == []


@given(st.binary(max_size=300))
def test_no_bytes_in_a_diary_stop_an_agent(data: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        diary.read(Path(file.name))


class Shims:
    """A shim's diary, and its bell."""

    def __init__(self, path: Path, reserve: int = 4096) -> None:
        self.grown = threading.Event()
        self.diary = Diary(str(path), reserve, self.grown.set)

    def append(self, event: str, **fields: Any) -> None:
        self.diary.append(event, **fields)
        self.diary.wait()


def test_the_shim_writes_what_the_agent_reads(tmp_path: Path) -> None:
    path = tmp_path / "diary.jsonl"
    shims = Shims(path)
    shims.append("go")
    assert shims.grown.wait(30)
    shims.append("dead", exits=[])
    assert [event["event"] for event in diary.read(path)] == ["go", "dead"]
    shims.diary.close()
    assert path.read_bytes().count(b"\n") == 2


def test_a_second_shim_and_the_agent_write_behind_the_first(tmp_path: Path) -> None:
    path = tmp_path / "diary.jsonl"
    Shims(path).append("one")  # it dies: the room that it reserved stays
    Shims(path).append("two")
    diary.append(path, "vanished", at=1.0, boottime=2.0, message="m")
    diary.append(path, "again", at=1.0, boottime=2.0)
    assert [event["event"] for event in diary.read(path)] == ["one", "two", "vanished", "again"]


def test_what_is_written_fits_into_the_reserved_room(tmp_path: Path) -> None:
    """So a disk that fills up later cannot refuse it: no block is added."""
    path = tmp_path / "diary.jsonl"
    shims = Shims(path, reserve=4096)
    size = path.stat().st_size
    for i in range(10):
        shims.append("exit", process=i, rank=i, pid=i, code=1)
    assert path.stat().st_size == size


def test_a_disk_that_refuses_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "diary.jsonl"
    shims = Shims(path)
    refused = []
    real = os.pwrite

    def pwrite(fd: int, data: bytes, offset: int) -> int:
        if not refused:
            refused.append(data)
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data, offset)

    monkeypatch.setattr("agents.shims.diary.RETRY", 0.01)
    monkeypatch.setattr(os, "pwrite", pwrite)
    shims.append("exit", process=0)
    assert len(refused) == 1
    assert [event["event"] for event in diary.read(path)] == ["exit"]
