"""The shim by itself: output, disks that are slow or full, commands, and who may have its folder."""

import errno
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.runtime import diary
from agents.runtime.sources import Rotated, tail
from agents.shims import plain, streams
from agents.shims.streams import LogWriter, Stream
from tests.agents.cluster import ROOT, alive, until


class ShimProcess:
    """A real shim in a folder, without an agent."""

    def __init__(self, folder: Path, *texts: str, deadline: float | None = None, log_limit: int = 2**20) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        processes = [
            {
                "argv": ["/bin/sh", "-c", text],
                "env": {"PATH": os.environ["PATH"]},
                "cwd": "/",
                "stream": f"rank-{i}",
                "rank": i,
            }
            for i, text in enumerate(texts)
        ]
        launch = {"worker": "w1", "attempt": "a1", "epoch": 3, "revision": 1, "boot_id": "b", "grace": 0.2}
        launch |= {"deadline": deadline, "log_limit": log_limit, "processes": processes}
        (folder / "launch.json").write_text(json.dumps(launch))
        self.process = subprocess.Popen([sys.executable, "-I", "-S", str(ROOT / "agents" / "shim.py"), str(folder)])
        until(lambda: self.event("shim") or self.process.poll() is not None)

    def event(self, name: str) -> dict[str, Any] | None:
        return next((e for e in diary.read(self.folder / "diary.jsonl") if e["event"] == name), None)

    def send(self, *lines: str) -> None:
        descriptor = os.open(self.folder, os.O_PATH)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(f"/proc/self/fd/{descriptor}/shim.sock")
            sock.sendall("".join(line + "\n" for line in lines).encode())
        os.close(descriptor)

    def ends(self) -> list[dict[str, Any]]:
        assert self.process.wait(60) == 0
        dead = self.event("dead")
        assert dead is not None
        return dead["exits"]  # type: ignore[no-any-return]


@pytest.fixture
def shims() -> Iterator[list[ShimProcess]]:
    shims: list[ShimProcess] = []
    yield shims
    for shim in shims:
        if shim.process.poll() is None:
            shim.process.kill()
            shim.process.wait()


GO = '{"do": "go"}'


@pytest.mark.processes
def test_the_begin_of_an_output_is_kept_for_its_agent_and_the_newest_of_the_rest(
    tmp_path: Path, shims: list[ShimProcess]
) -> None:
    shims.append(shim := ShimProcess(tmp_path, "head -c 3000000 /dev/zero; echo; echo the end", log_limit=400_000))
    shim.send(GO)
    shim.ends()
    source = Rotated(tmp_path / "streams", "rank-0")
    assert source.end() == 3_000_001 + len("the end\n")
    assert tail(source, 8) == "the end\n"
    assert source.read(0, 1_000_000).position >= 400_000
    assert sum(path.stat().st_size for path in (tmp_path / "streams").iterdir()) <= 400_000 + 3 * 65536
    source.discard(400_000)
    assert source.read(0, 10).missed >= 393_216
    assert tail(source, 8) == "the end\n"


@pytest.mark.processes
def test_a_path_longer_than_a_socket_address_works(tmp_path: Path, shims: list[ShimProcess]) -> None:
    shims.append(shim := ShimProcess(tmp_path / ("x" * 120) / ("y" * 120), "exit 6"))
    shim.send(GO)
    assert [exit_["code"] for exit_ in shim.ends()] == [6]


@pytest.mark.processes
def test_two_shims_for_one_worker_are_impossible(tmp_path: Path, shims: list[ShimProcess]) -> None:
    shims.append(shim := ShimProcess(tmp_path, "exec sleep 1000"))
    shim.send(GO)
    until(lambda: shim.event("started"))
    again = ShimProcess(tmp_path, "echo twice")
    assert again.process.wait(60) == 3
    assert len([e for e in diary.read(tmp_path / "diary.jsonl") if e["event"] == "started"]) == 1


@pytest.mark.processes
def test_go_said_twice_starts_once(tmp_path: Path, shims: list[ShimProcess]) -> None:
    shims.append(shim := ShimProcess(tmp_path, "exit 0", "exit 1"))
    shim.send(GO, GO)
    assert sorted(exit_["code"] for exit_ in shim.ends()) == [0, 1]
    assert len([e for e in diary.read(tmp_path / "diary.jsonl") if e["event"] == "started"]) == 2


@pytest.mark.processes
def test_nonsense_on_the_socket_harms_nobody(tmp_path: Path, shims: list[ShimProcess]) -> None:
    shims.append(shim := ShimProcess(tmp_path, "exit 2"))
    for line in ("nonsense", "{}", '{"do": "stop"}', '{"do": "deadline", "at": "x"}', "7", "x" * 70_000):
        try:
            shim.send(line)
        except (BrokenPipeError, ConnectionResetError):
            pass
    shim.send(GO)
    assert [exit_["code"] for exit_ in shim.ends()] == [2]


@pytest.mark.processes
def test_a_deadline_that_has_passed_lets_nothing_start(tmp_path: Path, shims: list[ShimProcess]) -> None:
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    shims.append(shim := ShimProcess(tmp_path, "echo never", deadline=now - 1))
    assert shim.ends() == []
    assert shim.event("fenced") is not None
    assert shim.event("go") is None


@pytest.mark.processes
def test_the_deadline_can_be_moved_until_it_has_come(tmp_path: Path, shims: list[ShimProcess]) -> None:
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    shims.append(shim := ShimProcess(tmp_path, "exec sleep 1000", deadline=now + 600))
    shim.send(GO, json.dumps({"do": "deadline", "at": now + 700}), json.dumps({"do": "deadline", "at": now}))
    assert [exit_["signal"] for exit_ in shim.ends()] == [signal.SIGKILL]
    fenced, dead = shim.event("fenced"), shim.event("dead")
    assert fenced is not None
    assert dead is not None
    assert dead["t"] >= fenced["t"] >= now


@pytest.mark.processes
def test_a_shim_that_is_told_to_end_stops_its_ranks_with_grace(tmp_path: Path, shims: list[ShimProcess]) -> None:
    saved = tmp_path / "saved"
    text = f"trap 'echo > {saved}; exit 8' TERM; echo up > {tmp_path}/up; while :; do sleep 0.02; done"
    shims.append(shim := ShimProcess(tmp_path / "w", text, "trap '' TERM; sleep 1000; sleep 1000"))
    shim.send(GO)
    until((tmp_path / "up").exists)
    shim.process.terminate()
    ends = {exit_["process"]: exit_.get("code", -exit_.get("signal", 0)) for exit_ in shim.ends()}
    assert ends[0] in (8, -9)  # 0.2 s of grace may be short on a slow machine
    assert ends[1] in (-9, -15, 143)


@pytest.mark.processes
def test_the_diary_proves_when_everything_was_dead(tmp_path: Path, shims: list[ShimProcess]) -> None:
    shims.append(shim := ShimProcess(tmp_path, "exit 0"))
    shim.send(GO)
    shim.ends()
    events = diary.read(tmp_path / "diary.jsonl")
    assert [event["event"] for event in events] == ["shim", "go", "started", "exit", "dead"]
    assert events[0]["epoch"] == 3
    times = [event["t"] for event in events]
    assert times == sorted(times)
    assert all("at" in event for event in events)
    assert not alive(events[2]["pid"])


def failing(monkeypatch: pytest.MonkeyPatch, failures: list[bool]) -> None:
    real = os.write

    def write(fd: int, data: Any) -> int:
        if failures and failures.pop(0):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(os, "write", write)


def content(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((folder / "streams").iterdir()))


def test_a_full_disk_costs_output_and_says_how_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "streams").mkdir()
    stream = Stream("rank-0", 2**20)
    assert stream.write(b"before") is None
    with monkeypatch.context() as patch:
        failing(patch, [True] * 3)
        error = stream.write(b"lost")
        assert error is not None
        assert error.errno == errno.ENOSPC
        assert stream.write(b"lost too") is None  # said once
    assert stream.write(b"after") is None
    assert content(tmp_path) == b"before\n[muster: 12 bytes of output lost: No space left on device]\nafter"


def test_a_slow_disk_costs_output_and_never_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "streams").mkdir()
    monkeypatch.setattr(streams, "BACKLOG", 10)
    monkeypatch.setattr(streams, "start_new_thread", lambda *_: None)  # a disk that never answers
    writer, stream = LogWriter(lambda _: None), Stream("rank-0", 2**20)
    writer.put(stream, b"12345")
    writer.put(stream, b"1234567")
    assert stream.dropped == 7
    assert not writer.settled()
    writer._written = writer._queued  # now it does
    writer.put(stream, b"x")
    assert stream.dropped == 0
    assert b"7 bytes of output dropped" in [writer._queue.get() for _ in range(2)][1][1]


def test_rotation_names_files_by_their_offset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "streams").mkdir()
    stream = Stream("rank-0", 0)  # segments of the least size, 64 KiB
    for _ in range(9):
        stream.write(b"x" * 40_000)
    names = sorted(path.name for path in (tmp_path / "streams").iterdir())
    offsets = [int(name.split(".")[1]) for name in names]
    assert len(names) == streams.RING
    assert Rotated(tmp_path / "streams", "rank-0").end() == 360_000
    assert all(b - a <= 65536 for a, b in itertools.pairwise(offsets))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_what_a_shim_says_and_reads_is_json(value: Any) -> None:
    assert plain.loads(json.dumps(value).encode()) == value
    assert json.loads(plain.dumps(value)) == value


@pytest.mark.parametrize("text", ["", "{", "1 2", "nonsense", '{"a": }'])
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        plain.loads(text)
