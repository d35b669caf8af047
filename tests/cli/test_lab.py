"""`muster down` and `muster lab` against a control socket that answers as `muster up` does."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from cli.up.layout import Layout


class Control:
    """Answers one request a connection; `answers` maps what is to be done to an answer or a function."""

    def __init__(self, folder):
        self.answers, self.asked = {}, []
        self._server = socket.socket(socket.AF_UNIX)
        here = os.open(folder, os.O_PATH)
        self._server.bind(f"/proc/self/fd/{here}/{Layout(folder).control.name}")
        os.close(here)
        self._server.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            connection, _ = self._server.accept()
            with connection:
                request = json.loads(connection.recv(65536))
                if request["do"] == "end":
                    return
                self.asked.append(request)
                answer = self.answers[request["do"]]
                connection.sendall(json.dumps(answer() if callable(answer) else answer).encode())


@pytest.fixture
def control(tmp_path, monkeypatch):
    from cli.up.control import ask

    monkeypatch.setenv("MUSTER_DATA_DIR", str(tmp_path))
    made = Control(tmp_path)
    yield made
    with pytest.raises(ValueError):
        ask(tmp_path, do="end")


def test_down_waits_until_the_process_is_gone(control, muster):
    process = subprocess.Popen(["sleep", "600"])

    def stop():
        threading.Timer(0.1, lambda: (process.kill(), process.wait())).start()
        return {"pid": process.pid}

    control.answers["stop"] = stop
    done = muster("down")
    assert process.poll() is not None
    assert (done.code, done.out) == (0, "stopped; `muster up` goes on where it was\n")


def test_down_ends_an_up_that_starts_or_ends_just_now_and_answers_nothing(muster, tmp_path):
    holds = "import fcntl, os, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, 2); os.write(f.fileno(), b'%d' % os.getpid()); print(flush=True); input()"
    process = subprocess.Popen(
        [sys.executable, "-c", holds, Layout(tmp_path).lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    reaper = threading.Thread(target=process.wait)
    try:
        process.stdout.readline()
        reaper.start()
        done = muster("down", "--data-dir", tmp_path)
        reaper.join(10)
        assert (done.code, process.returncode) == (0, -signal.SIGTERM)
        assert muster("down", "--data-dir", tmp_path).out == f"no cluster is running in {tmp_path}\n"
    finally:
        process.kill()
        process.stdin.close()
        process.stdout.close()


def test_down_says_so_when_the_end_does_not_come(control, muster):
    process = subprocess.Popen(["sleep", "600"])
    control.answers["stop"] = {"pid": process.pid}
    try:
        done = muster("down", "--timeout", "0")
    finally:
        process.kill()
        process.wait()
    assert done.code == 124
    assert f"(pid {process.pid}) has not ended after 0 s" in done.err


def test_down_of_nothing_is_done_already(muster, tmp_path):
    for folder in (tmp_path, tmp_path / "never-made"):
        done = muster("down", "--data-dir", folder)
        assert (done.code, done.out) == (0, f"no cluster is running in {folder}\n")


def test_lab_shows_the_processes(control, muster, tmp_path):
    control.answers["status"] = {
        "url": "http://127.0.0.1:7878",
        "ready": True,
        "pid": 10,
        "processes": {
            "api": {"pid": 11, "restarts": 0, "off": False},
            "controller": {"pid": None, "restarts": 3, "off": False},
            "agent-node-1": {"pid": None, "restarts": 0, "off": True},
        },
    }
    expected = """\
http://127.0.0.1:7878, ready, pid 10
PROCESS       PID  RESTARTS  STATE
api           11   0         running
controller    -    3         restarting
agent-node-1  -    0         lost
"""
    assert muster("lab", "status").out == expected
    assert muster("lab", "--data-dir", tmp_path, "status").out == expected


def test_lab_loses_a_node_and_returns_it(control, muster):
    control.answers |= {"lose": {"node": "node-1", "killed": [1, 2, 3]}, "return": {"node": "node-1"}}
    assert muster("lab", "lose", "node-1").out == (
        "node-1 is lost: 3 processes killed; `muster lab return node-1` brings it back\n"
    )
    assert muster("lab", "return", "node-1").out == "node-1 starts again\n"
    assert control.asked == [{"do": "lose", "node": "node-1"}, {"do": "return", "node": "node-1"}]


def test_lab_tells_what_up_refuses_and_that_none_runs(control, muster, tmp_path):
    control.answers["lose"] = {"error": "there is no node x; nodes: node-0"}
    done = muster("lab", "lose", "x")
    assert (done.code, done.err) == (4, "error: there is no node x; nodes: node-0\n")
    done = muster("lab", "--data-dir", tmp_path / "none", "status")
    assert done.code == 5
    assert "hint: start one with `muster up`" in done.err


def test_an_unknown_word_of_lab_is_wrong_usage(muster):
    done = muster("lab", "loose", "node-1")
    assert (done.code, done.err) == (2, 'error: unknown command "loose"\nhint: did you mean "lose"?\n')
