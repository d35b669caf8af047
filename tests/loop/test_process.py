"""The controller as a process: leads, is killed, is replaced by its standby, ends cleanly."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from controller.state.store import open_store
from muster.clock import SystemClock
from muster.states import JobPhase, NodePhase
from tests.loop.world import counter
from tests.makers import make_job, make_node

pytestmark = pytest.mark.processes
SLOWNESS = float(os.environ.get("MUSTER_TEST_SLOWNESS", "5"))
"""Of this machine, for what is promised in seconds."""
ROOT = Path(__file__).parents[2]


class Cluster:
    def __init__(self, folder):
        self.url = f"sqlite:///{folder}/muster.db"
        self.store = open_store(self.url, clock=SystemClock(), new_id=counter())
        self.store.migrate()
        self.processes = []

    def start(self, **more):
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "MUSTER_DATABASE_URL": self.url,
            "MUSTER_LEADER_LEASE": "2",
            "MUSTER_REDIS_URL": "",
            **more,
        }
        process = subprocess.Popen([sys.executable, "-m", "controller.main"], env=env, cwd=ROOT, stderr=subprocess.PIPE)
        self.processes.append(process)
        return process

    def submit(self, name):
        job = make_job(name, created_at=time.time(), queued_at=time.time())
        self.store.transact(lambda w: w.insert_job(job))
        return job

    def node(self, name):
        with self.store.read() as r:
            return r.node(name).phase

    def renew_until(self, name, phase):
        deadline = time.monotonic() + 60
        while self.node(name) is not phase:
            assert time.monotonic() < deadline
            self.store.transact(lambda w: w.renew_leases([(name, "boot")]))
            time.sleep(0.1)

    def leader(self):
        """The epoch of whoever leads."""
        with self.store._engine.connect() as connection:
            return connection.exec_driver_sql("SELECT epoch FROM leader").scalar_one()

    def until_starting(self, job, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self.store.read() as r:
                if r.job(job.uid).phase is JobPhase.STARTING:
                    return
            time.sleep(0.05)
        raise AssertionError("the job was never placed")


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    for process in made.processes:
        process.kill()
        process.wait()
        process.stderr.close()
    made.store.close()


def test_a_standby_takes_over_from_a_killed_leader_and_sigterm_hands_over_at_once(cluster):
    with cluster.store.write() as w:
        w.put_node(make_node("n0"))
    first = cluster.start()
    cluster.until_starting(cluster.submit("one"))
    second = cluster.start()
    first.kill()
    cluster.until_starting(cluster.submit("two"))
    second.send_signal(signal.SIGTERM)
    assert second.wait(timeout=30) == 0
    cluster.start()
    cluster.until_starting(cluster.submit("three"))


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("MUSTER_DATABASE_URL", "", "MUSTER_DATABASE_URL"),
        ("MUSTER_LEASE", "{", "MUSTER_LEASE"),
        ("MUSTER_LEADER_LEASE", "soon", "MUSTER_LEADER_LEASE"),
        ("MUSTER_EXECUTOR", "slurm", "agents or kubernetes"),
    ],
)
def test_a_wrong_setting_ends_the_process_with_one_line_that_names_it(variable, value, says):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MUSTER_DATABASE_URL": "sqlite:////nowhere/x.db", variable: value}
    done = subprocess.run(
        [sys.executable, "-m", "controller.main"], env=env, cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_leader_that_was_stopped_is_replaced_in_time_and_writes_nothing_more(cluster):
    """The new one grants every node a full lease before it thinks anything of its silence."""
    lease = {"renew": 0.5, "unknown": 3.0, "fence": 600.0, "margin": 1.0}
    with cluster.store.write() as w:
        w.put_node(make_node("n0"))
        w.renew_leases([("n0", "boot")])
    first = cluster.start(MUSTER_LEASE=json.dumps(lease))
    cluster.until_starting(cluster.submit("one"))
    second = cluster.start(MUSTER_LEASE=json.dumps(lease))
    until("the standby watches", lambda: has_open(second, "muster.db"))
    until("the node is silent", lambda: cluster.node("n0") is NodePhase.UNKNOWN)
    cluster.renew_until("n0", NodePhase.READY)
    assert cluster.leader() == 1
    told = reading(second)
    first.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    until("a new leader", lambda: cluster.leader() == 2)
    took = time.monotonic() - stopped
    assert cluster.node("n0") is NodePhase.READY
    until("the node is silent again", lambda: cluster.node("n0") is NodePhase.UNKNOWN)
    silent = time.monotonic() - stopped - took
    print(f"takeover {took:.2f} s after SIGSTOP with a lease of 2 s; the node was called silent {silent:.2f} s later")
    assert took <= 4.0 * SLOWNESS
    assert silent >= lease["unknown"] - 0.1
    said = reading(first)
    cluster.submit("two")
    first.send_signal(signal.SIGCONT)
    until("it knows", lambda: any("leadership lost" in line for line in said), seconds=60)
    assert cluster.leader() == 2
    assert sum("leading" in line for line in told) == 1


def until(what, true, seconds=60):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


def has_open(process, name):
    return any(name in os.path.realpath(fd) for fd in Path(f"/proc/{process.pid}/fd").iterdir())


def reading(process):
    """What a process says from now on, line by line."""
    lines = []
    threading.Thread(target=lambda: [lines.append(line.decode()) for line in process.stderr], daemon=True).start()
    return lines
