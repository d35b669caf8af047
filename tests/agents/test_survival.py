"""Whoever dies: ranks go on under their shim, no exit code is lost, and nothing runs past its fence."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.runtime import postmortem
from muster.evidence import Source
from muster.launch import Running
from tests.agents.cluster import ROOT, TOKEN, AgentProcess, FakeApi, alive, make_assignment, until
from tests.agents.test_life import run

pytestmark = pytest.mark.processes


def test_ranks_go_on_when_their_agent_is_killed_and_their_exit_code_is_told_later(
    api: FakeApi, agent: AgentProcess, tmp_path: Path
) -> None:
    run(api, make_assignment("w1", f"while ! [ -e {tmp_path}/go ]; do sleep 0.02; done; echo done; exit 42"))
    api.reaches("Running")
    agent.kill()
    assert alive(agent.pids()[0])
    (tmp_path / "go").touch()
    agent.event("dead")
    agent.start()
    assert [(e.code, e.signal) for e in api.reaches("Exited").exits] == [(42, None)]
    assert [e.text for e in api.evidence() if e.source is Source.LOG] == ["done\n"]
    assert len([event for event in agent.events() if event["event"] == "started"]) == 1


def test_a_new_agent_adopts_a_running_worker_and_can_stop_it(api: FakeApi, agent: AgentProcess) -> None:
    run(api, make_assignment("w1", "exec sleep 1000"))
    api.reaches("Running")
    pid, shim = agent.pids()[0], agent.event("shim")["pid"]
    agent.kill()
    agent.start()
    until(lambda: len(api.hellos) == 2)
    assert [(w.worker_uid, w.phase) for w in api.hellos[1].workers] == [("w1", "Running")]
    api.reaches("Running")
    assert (agent.pids(), agent.event("shim")["pid"]) == ([pid], shim)
    assert alive(pid)
    api.change("w1", desired="stop")
    assert api.reaches("Exited").exits[0].signal == signal.SIGTERM


def test_an_agent_that_is_told_to_end_leaves_the_ranks_running(api: FakeApi, agent: AgentProcess) -> None:
    run(api, make_assignment("w1", "exec sleep 1000"))
    api.reaches("Running")
    assert agent.kill(signal.SIGTERM) == 0
    assert alive(agent.pids()[0])


def test_a_second_agent_in_the_same_folder_is_refused(api: FakeApi, agent: AgentProcess) -> None:
    until(lambda: api.hellos)
    again = AgentProcess(api, agent.directory)
    assert again.process is not None
    assert again.process.wait(60) == 3
    assert f"another agent (pid {agent.pid})" in again.log.read_text()


@pytest.mark.parametrize("agent_too", [False, True], ids=["the agent lives", "the agent dies as well"])
def test_when_the_shim_is_killed_everything_of_it_dies_and_is_told(
    api: FakeApi, agent: AgentProcess, tmp_path: Path, agent_too: bool
) -> None:
    daemon = f"setsid /bin/sh -c 'echo $$ > {tmp_path}/daemon; exec sleep 1000' &"
    run(
        api,
        make_assignment(
            "w1", f"({daemon}); while ! [ -s {tmp_path}/daemon ]; do sleep 0.01; done; echo up; exec sleep 1000"
        ),
    )
    until(lambda: "up" in api.log())
    rank, left = agent.pids()[0], int((tmp_path / "daemon").read_text())
    if agent_too:
        agent.kill()
    os.kill(agent.event("shim")["pid"], signal.SIGKILL)
    until(lambda: not alive(rank), "the rank dies with its shim")
    if agent_too:
        assert alive(left)
        agent.start()
    report = api.reaches("Exited")
    assert report.problem == "VANISHED"
    assert not alive(left)
    assert [event["event"] for event in agent.events()][-1] == "vanished"


def test_an_orphan_without_its_environment_is_killed_with_the_rest(
    api: FakeApi, agent: AgentProcess, tmp_path: Path
) -> None:
    daemon = f"setsid env -i /bin/sh -c 'echo $$ > {tmp_path}/daemon; exec sleep 1000' &"
    run(
        api,
        make_assignment("w1", f"({daemon}); while ! [ -s {tmp_path}/daemon ]; do sleep 0.01; done; exec sleep 1000"),
    )
    left = int(until(lambda: (tmp_path / "daemon").exists() and (tmp_path / "daemon").read_text()))
    os.kill(agent.event("shim")["pid"], signal.SIGKILL)
    assert api.reaches("Exited").problem == "VANISHED"
    assert not alive(left)


def test_a_shim_killed_at_the_barrier_is_replaced(api: FakeApi, agent: AgentProcess) -> None:
    api.want(make_assignment("w1", "echo once"))
    api.reaches("Ready")
    first = agent.event("shim")["pid"]
    os.kill(first, signal.SIGKILL)
    until(lambda: [e["pid"] for e in agent.events() if e["event"] == "shim" and e["pid"] != first])
    api.reaches("Ready")
    api.change("w1", desired="run")
    assert api.reaches("Exited").exits[0].code == 0
    until(lambda: api.log() == "once\n")


def test_the_fence_kills_the_ranks_of_a_node_whose_agent_is_dead(api: FakeApi, agent: AgentProcess) -> None:
    run(api, make_assignment("w1", "trap '' TERM; while :; do sleep 0.05; done", fence=4.0))
    api.reaches("Running")
    agent.kill()
    last = api.renewals[-1].sent
    fenced = agent.event("fenced")
    dead = agent.event("dead")
    assert fenced["t"] >= last + 4.0 - 0.25  # the last one that was acknowledged may be the one before
    assert dead["exits"][0]["signal"] == signal.SIGKILL
    agent.start()
    assert api.reaches("Exited").problem == "FENCED"


def test_the_fence_comes_from_renewals_that_are_acknowledged_not_from_those_that_are_sent(
    api: FakeApi, agent: AgentProcess
) -> None:
    run(api, make_assignment("w1", "exec sleep 1000", fence=1.5))
    api.reaches("Running")
    api.renews = False
    assert agent.event("fenced")
    api.renews = True
    assert api.reaches("Exited").problem == "FENCED"


def test_renewals_keep_a_worker_alive_past_its_fence(api: FakeApi, agent: AgentProcess) -> None:
    run(api, make_assignment("w1", "exec sleep 1000", fence=1.0))
    api.reaches("Running")
    begin = api.renewals[-1].sent
    until(lambda: api.renewals[-1].sent > begin + 2.0)
    assert api.worker().phase == "Running"  # type: ignore[union-attr]
    assert alive(agent.pids()[0])


def test_without_a_fence_ranks_outlive_a_long_silence(api: FakeApi, agent: AgentProcess, tmp_path: Path) -> None:
    run(api, make_assignment("w1", f"while ! [ -e {tmp_path}/go ]; do sleep 0.02; done; exit 5", fence=None))
    api.reaches("Running")
    api.stop()
    (tmp_path / "go").touch()
    agent.event("dead")
    api.start()
    assert api.reaches("Exited").exits[0].code == 5


def test_reports_are_repeated_until_they_are_acknowledged(api: FakeApi, agent: AgentProcess) -> None:
    api.acks = False
    api.want(make_assignment("w1"))
    until(lambda: api.reports)
    seq = api.reports[0].seq
    api.stop()
    api.acks = True
    api.start()
    api.reaches("Ready")
    seqs = [report.seq for report in api.reports]
    assert seqs[:2] == [seq, seq]
    assert seqs[1:] == sorted(set(seqs))


def test_an_end_that_is_acknowledged_is_told_once(api: FakeApi, agent: AgentProcess) -> None:
    run(api, make_assignment("w1", "exit 1"))
    api.reaches("Exited")
    until((agent.folder() / "acked").exists)
    told = len(api.reports)
    agent.kill()
    agent.start()
    until(lambda: len(api.hellos) == 2)
    assert [worker.phase for worker in api.hellos[1].workers] == ["Exited"]
    api.want(*api.assignments.values(), make_assignment("w2", attempt="a2", job_uid="j2"))
    api.reaches("Ready", "w2")
    assert {worker.worker_uid for report in api.reports[told:] for worker in report.workers} == {"w2"}


def test_logs_have_neither_holes_nor_repeats_whoever_breaks(api: FakeApi, agent: AgentProcess, tmp_path: Path) -> None:
    text = f"i=0; while ! [ -e {tmp_path}/go ]; do echo line $i; i=$((i+1)); sleep 0.005; done; echo last $i"
    run(api, make_assignment("w1", text, fence=None))
    until(lambda: "line 20\n" in api.log())
    api.stop()
    api.start()
    until(lambda: len(api.log().splitlines()) > 60)
    agent.kill()
    agent.start()
    lines = len(api.log().splitlines())
    until(lambda: len(api.log().splitlines()) > lines + 20)
    (tmp_path / "go").touch()
    api.reaches("Exited")
    until(lambda: "last" in api.log())
    *said, last = api.log().splitlines()
    assert last == f"last {len(said)}"
    assert said == [f"line {i}" for i in range(len(said))]


def test_an_unacknowledged_log_is_kept_and_sent_after_the_worker_is_unlisted(api: FakeApi, agent: AgentProcess) -> None:
    api.log_acks = False
    run(api, make_assignment("w1", "echo precious"))
    api.reaches("Exited")
    until(lambda: api.chunks)
    api.want()
    api.stop()
    assert agent.folder().exists()
    api.log_acks = True
    api.start()
    until(lambda: not agent.folder().exists())
    assert api.log() == "precious\n"


def test_the_agent_says_who_it_is(api: FakeApi, start_agent: Callable[..., AgentProcess]) -> None:
    start_agent(
        MUSTER_VIRTUAL_DEVICES="h100:8",
        MUSTER_NODE_LABELS="muster.dev/block=b0,muster.dev/leaf=b0-l1",
        MUSTER_NODE_CPU="16",
        MUSTER_NODE_MEMORY="64Gi",
        MUSTER_VIRTUAL_BOOT="2",
    )
    hello = until(lambda: api.hellos)[0]
    real = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (hello.node, hello.boot_id) == ("n1", f"{real}-2")
    inventory = hello.inventory
    assert [(d.index, d.type, d.virtual) for d in inventory.devices] == [(i, "h100", True) for i in range(8)]
    assert inventory.labels == {"muster.dev/block": "b0", "muster.dev/leaf": "b0-l1"}
    assert (inventory.cpu_milli, inventory.memory) == (16_000, 64 * 2**30)
    assert api.tokens == [f"Bearer {TOKEN}"]


def test_a_wrong_configuration_is_told_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agents.main"], env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    for name in ("MUSTER_SERVER", "MUSTER_TOKEN_FILE", "MUSTER_NODE", "MUSTER_AGENT_DIR"):
        assert f"{name} is not set" in done.stderr


def test_an_idle_agent_is_small_and_quiet(api: FakeApi, agent: AgentProcess) -> None:
    """Budget: 80 MB, 1 % of a core. Renewing five times a second, as no real cluster does."""
    until(lambda: len(api.renewals) > 3)
    begin, used = time.monotonic(), _cpu(agent.pid)
    until(lambda: len(api.renewals) > 18)
    share = (_cpu(agent.pid) - used) / (time.monotonic() - begin)
    assert _rss(agent.pid) < 80_000
    assert share < 0.05, f"{share:.1%} of a core at five renewals a second"


def test_a_shim_is_small(api: FakeApi, agent: AgentProcess) -> None:
    api.want(make_assignment("w1"))
    api.reaches("Ready")
    assert _rss(agent.event("shim")["pid"]) < 13_000


def _rss(pid: int) -> int:
    """Kilobytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_thousand_descendants_die_within_two_seconds(api: FakeApi, agent: AgentProcess) -> None:
    """Whatever they have done to get away: sessions of their own, two forks, signals that they ignore."""
    away = "(setsid sh -c 'trap \"\" TERM HUP; sleep 4321.125 & wait' >/dev/null 2>&1 &)"
    run(
        api, make_assignment("w1", f"i=0; while [ $i -lt 500 ]; do {away}; i=$((i+1)); done; echo up; wait; sleep 1000")
    )
    until(lambda: "up" in api.log())
    until(lambda: len(_sleepers()) == 500)
    began = time.monotonic()
    api.change("w1", desired="stop", grace=0.0)
    api.reaches("Exited")
    took = time.monotonic() - began
    assert _sleepers() == set()
    assert took < 2.0 * max(1.0, os.getloadavg()[0])  # two seconds on a machine that has nothing else to do


def _sleepers() -> set[int]:
    found = set()
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and b"4321.125" in Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0"):
                found.add(int(name))
    return found


def test_stacks_and_core_files_of_a_failure_are_kept(api: FakeApi, agent: AgentProcess) -> None:
    if postmortem.py_spy() is None:
        pytest.skip("needs py-spy")
    stuck = "import time\ndef in_collective():\n    time.sleep(1000)\nprint('up', flush=True)\nin_collective()"
    python = (sys.executable, "-c", stuck)
    crash = (sys.executable, "-c", "import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)\nos.abort()")
    template = {
        "processes": (python, crash),
        "ranks": 2,
        "running": Running(ulimits={"core": -1}),
        "process_env": ({"RANK": "0"}, {"RANK": "1"}),
    }
    run(api, make_assignment("w1", template=template))
    until(lambda: "up" in api.log())
    (agent.folder() / "work/go").touch()
    until(lambda: (report := api.worker()) and report.exits)
    api.change("w1", desired="stop", grace=1.0, failing=True)
    api.reaches("Exited")
    stacks = [one for one in api.evidence() if one.source == "stack"]
    assert [(one.rank, "in_collective" in one.text) for one in stacks] == [(0, True)]
    pattern = Path("/proc/sys/kernel/core_pattern").read_text()
    told = [one.text for one in api.evidence() if one.data.get("code") == "CORE_DUMP"]
    if pattern.startswith(("core", "|")):
        assert len(told) == 1
    if pattern.startswith("core"):
        assert list((agent.directory / "cores").iterdir()) != []
