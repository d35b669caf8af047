"""The controller as a process: leads, is killed, is replaced by its standby, ends cleanly."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controller.state.store import open_store
from muster.clock import SystemClock
from muster.states import JobPhase
from tests.loop.world import counter
from tests.makers import make_job, make_node

pytestmark = pytest.mark.processes
ROOT = Path(__file__).parents[2]


class Cluster:
    def __init__(self, folder):
        self.url = f"sqlite:///{folder}/muster.db"
        self.store = open_store(self.url, clock=SystemClock(), new_id=counter())
        self.store.migrate()
        self.processes = []

    def start(self):
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "MUSTER_DATABASE_URL": self.url,
            "MUSTER_LEADER_LEASE": "2",
            "MUSTER_REDIS_URL": "",
        }
        process = subprocess.Popen([sys.executable, "-m", "controller.main"], env=env, cwd=ROOT, stderr=subprocess.PIPE)
        self.processes.append(process)
        return process

    def submit(self, name):
        job = make_job(name, created_at=time.time(), queued_at=time.time())
        self.store.transact(lambda w: w.insert_job(job))
        return job

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
