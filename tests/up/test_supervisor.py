"""The supervisor with real, simple processes: starts, restarts, loses a node, ends without leaving anything."""

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
from cli.up.supervisor import CannotStart, Supervisor

layout = Layout(Path(sys.argv[1]))
parts = [Part("server", ("sleep", "600")), Part("agent-a", ("sleep", "600"), node="a")]
if len(sys.argv) > 2:
    parts.append(Part("broken", ("sh", "-c", "echo no luck; exit 3"), restart_after=0.01))
supervisor = Supervisor(layout, parts, about={"url": "none"}, say=print, ready=lambda: len(sys.argv) == 2)
try:
    supervisor.run(lambda seconds: print("ready"))
except CannotStart as error:
    print(error)
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

    def pid(self, name):
        state = self.layout.read_state()
        return state["processes"][name]["pid"] if state else None


@pytest.fixture
def up(tmp_path):
    made = Up(tmp_path)
    until(lambda: (made.layout.read_state() or {}).get("ready"))
    yield made
    made.process.kill()
    made.process.wait()
    made.process.stdout.close()


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


def test_a_part_that_never_works_is_given_up_with_its_last_words(tmp_path):
    broken = Up(tmp_path, "broken")
    output, _ = broken.process.communicate(timeout=60)
    assert broken.process.returncode == 1
    assert "broken ended with 3 5 times" in output
    assert "no luck" in output


def test_a_control_socket_in_a_very_long_folder_works(tmp_path):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    made = Up(folder)
    until(lambda: (made.layout.read_state() or {}).get("ready"))
    assert ask(folder, do="status")["pid"] == made.process.pid
    ask(folder, do="stop")
    assert made.process.wait(60) == 0
    made.process.stdout.close()
