"""The agent as a unit of systemd."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agents import notify
from tests.agents.cluster import ROOT, AgentProcess, until

UNIT = ROOT / "deploy/systemd/muster-agent.service"


def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("needs systemd-analyze")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/usr/local/bin/muster-agent", "/bin/true"))
    done = subprocess.run([verify, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, ours) == (0, []), done.stderr


def test_it_leaves_workers_alone_and_may_make_groups() -> None:
    settings = {line.partition("=")[0]: line.partition("=")[2] for line in UNIT.read_text().splitlines()}
    wanted = {"KillMode": "process", "Delegate": "yes", "Type": "notify", "WatchdogSec": "30"}
    assert {name: settings[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("env", "seconds"),
    [({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 15.0), ({"WATCHDOG_USEC": "2000000"}, 1.0),
     ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None), ({"WATCHDOG_USEC": "x"}, None), ({}, None)],
)  # fmt: skip
def test_how_often_it_says_that_it_is_alive(env: dict[str, str], seconds: float | None) -> None:
    assert notify.period(env, pid=7) == seconds


@pytest.mark.processes
def test_it_says_that_it_is_ready_and_alive_and_that_it_ends(
    start_agent: Callable[..., AgentProcess], tmp_path: Path
) -> None:
    path = os.path.join(os.path.relpath(tmp_path), "notify") if len(str(tmp_path)) > 90 else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        listener.settimeout(60)
        agent = start_agent(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="20000")
        assert [listener.recv(64) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
        agent.kill(signal.SIGTERM)
        until(lambda: listener.recv(64) == b"STOPPING=1")
