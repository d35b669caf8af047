"""The supervisor with real, simple processes: starts, restarts, loses a node, ends without leaving anything."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.up import processes
from cli.up.control import NotRunning, Refused, ask
from cli.up.layout import Layout

pytestmark = pytest.mark.processes
ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
from pathlib import Path
from cli.up.layout import Layout
from cli.up.parts import Part
from cli.up.refusal import CannotStart
from cli.up.supervisor import Supervisor

layout = Layout(Path(sys.argv[1]))
parts = [Part("server", ("sleep", "600")), Part("agent-a", ("sleep", "600"), node="a")]
if len(sys.argv) > 2:
    argv = ("/no/such/program",) if sys.argv[2] == "missing" else ("sh", "-c", "echo no luck; exit 3")
    parts.append(Part(sys.argv[2], argv, restart_after=0.01))
ready = frozenset(part.name for part in parts if part.name != "broken")
supervisor = Supervisor(layout, parts, about={"url": "none"}, say=print, ready=lambda: ready)
try:
    supervisor.run(lambda seconds: print("ready"))
except CannotStart as error:
    print(*error.lines(), sep=chr(10))
    sys.exit(1)
"""


def until(true, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (value := true()) not in (None, False):
            return value
        time.sleep(0.02)
    raise AssertionError("never came true")


class Up:
    def __init__(self, folder, *more):
        self.layout = Layout(folder)
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), *more], env=env, stdout=subprocess.PIPE, text=True
        )

    def wait_ready(self):
        def ready():
            assert self.process.poll() is None, "it has ended"
            return (self.layout.read_state() or {}).get("ready")

        until(ready)

    def pid(self, name):
        state = self.layout.read_state()
        return state["processes"][name]["pid"] if state else None


@pytest.fixture
def start(tmp_path):
    """`start(*more, folder=)`: ended when the test is over, however that goes."""
    started = []

    def begin(*more, folder=tmp_path):
        started.append(Up(folder, *more))
        return started[-1]

    yield begin
    for one in started:
        one.process.kill()
        one.process.wait()
        one.process.stdout.close()


@pytest.fixture
def up(start):
    made = start()
    made.wait_ready()
    return made


def gone(pid):
    return processes.start_time(pid) is None


def test_a_part_that_dies_is_started_again_and_the_state_file_says_so(up):
    old = up.pid("server")
    os.kill(old, signal.SIGKILL)
    new = until(lambda: (pid := up.pid("server")) != old and pid)
    assert not gone(new)
    assert up.layout.read_state()["processes"]["server"]["restarts"] == 1


def test_sigterm_ends_everything_and_removes_socket_and_state(up):
    pids = [up.pid("server"), up.pid("agent-a")]
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(60) == 0
    assert all(gone(pid) for pid in pids)
    assert not up.layout.state.exists()
    with pytest.raises(NotRunning):
        ask(up.layout.folder, do="status")


def test_sigkill_of_the_supervisor_takes_its_parts_along(up):
    pids = [up.pid("server"), up.pid("agent-a")]
    up.process.kill()
    until(lambda: all(gone(pid) for pid in pids))


def test_stop_through_the_control_socket(up):
    assert ask(up.layout.folder, do="stop") == {"pid": up.process.pid}
    assert up.process.wait(60) == 0


def test_a_lost_node_stays_lost_with_its_shims_and_ranks_until_it_is_returned(up):
    shim = subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=True)
    rank = until(lambda: (processes.children(shim.pid) or [None])[0])
    folder = up.layout.agent("a") / "attempts" / "w1"
    folder.mkdir(parents=True)
    entry = {"event": "shim", "pid": shim.pid, "start": processes.start_time(shim.pid)}
    (folder / "diary.jsonl").write_text(json.dumps(entry) + "\n")
    agent = up.pid("agent-a")
    answer = ask(up.layout.folder, do="lose", node="a")
    assert set(answer["killed"]) >= {shim.pid, rank, agent}
    shim.wait()
    assert all(gone(pid) for pid in (shim.pid, rank, agent))
    time.sleep(0.3)
    assert up.pid("agent-a") is None
    ask(up.layout.folder, do="return", node="a")
    until(lambda: up.pid("agent-a"))


def test_what_is_asked_wrongly_is_refused_in_words(up):
    with pytest.raises(Refused, match="there is no node z; nodes: a"):
        ask(up.layout.folder, do="lose", node="z")
    with pytest.raises(Refused, match="unknown request 'dance'"):
        ask(up.layout.folder, do="dance")


def test_a_part_that_never_works_is_given_up_with_its_last_words(start):
    broken = start("broken")
    output, _ = broken.process.communicate(timeout=60)
    assert broken.process.returncode == 1
    assert "error: broken ended with 3, 5 times\n  no luck\n" in output
    assert f"hint: see {broken.layout.log('broken')}" in output


def test_a_part_that_begins_to_die_later_is_told_with_its_last_words_and_tried_on(start):
    later = start("later")
    later.wait_ready()
    until(lambda: later.layout.read_state()["processes"]["later"]["restarts"] >= 6)
    ask(later.layout.folder, do="stop")
    output, _ = later.process.communicate(timeout=60)
    assert later.process.returncode == 0
    assert output.count("error: later keeps dying\n  no luck\n") == 1


def test_a_part_that_cannot_be_executed_is_told_and_nothing_stays(start):
    missing = start("missing")
    output, _ = missing.process.communicate(timeout=60)
    assert missing.process.returncode == 1
    assert "error: missing cannot be started: No such file or directory\n" in output
    assert not missing.layout.control.exists()
    assert not missing.layout.state.exists()


def test_every_part_is_told_once_when_it_is_ready_and_then_the_whole(up):
    ask(up.layout.folder, do="stop")
    output, _ = up.process.communicate(timeout=60)
    lines = output.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["server", "ready"], ["agent-a", "ready"]]
    assert lines[2] == "ready"


def test_a_control_socket_in_a_very_long_folder_works(start, tmp_path):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    made = start(folder=folder)
    made.wait_ready()
    assert ask(folder, do="status")["pid"] == made.process.pid
    ask(folder, do="stop")
    assert made.process.wait(60) == 0


FORKS = """
import os, sys, time
sys.stdout.write("up\\n")
sys.stdout.flush()
for _ in range(500):  # a child and a grandchild each time: no listing of it is right for long
    if os.fork() == 0:
        if os.fork() > 0:
            time.sleep(600)
        time.sleep(600)
    time.sleep(0.02)
time.sleep(600)
"""


def test_what_goes_on_starting_processes_is_frozen_with_all_of_them():
    root = subprocess.Popen([sys.executable, "-c", FORKS], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert root.stdout.readline() == b"up\n"
        until(lambda: len(processes.descendants(root.pid)) >= 6)
        frozen = processes.freeze([root.pid])
        time.sleep(0.2)  # in which ten more would have come
        assert set(frozen) == {root.pid, *processes.descendants(root.pid)}
        processes.kill(frozen)
        root.wait()
        until(lambda: all(gone(pid) for pid in frozen))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(root.pid, signal.SIGKILL)
        root.wait()
        root.stdout.close()


def test_freezing_what_is_gone_is_no_error():
    process = subprocess.Popen(["true"])
    process.wait()
    assert processes.freeze([process.pid]) == []
