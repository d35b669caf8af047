"""A running job while API, controller, worker, agents and Redis server are killed at random moments.

Nothing that was accepted is lost, the job succeeds once, and no rank is ever alive in two attempts. The moments and
the victims come from a seed: `MUSTER_CHAOS_SEED=7 ./run test tests/chaos` repeats a run.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from muster.client import Client, Unreachable
from tests.chaos.diaries import lives, overlaps

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
KILLS = 30
SEED = int(os.environ.get("MUSTER_CHAOS_SEED", "1"))
VICTIMS = ["api", "controller", "worker", "redis", "agent-node-0", "agent-node-1", "agent-node-2", "agent-node-3"]

JOB = {
    "apiVersion": "muster.dev/v1",
    "kind": "Job",
    "metadata": {"name": "survivor"},
    "spec": {
        "framework": "command",
        "workers": 2,
        "ranksPerWorker": 2,
        "accelerators": [{"type": "h100", "count": 2}],
        "topology": {"required": "leaf"},
        "recovery": {"maxRestarts": 100, "noProgressLimit": 100, "killGrace": "1s"},
    },
}

# Counts steps until the file `enough` appears; every rank that ends well leaves one line.
RANK = """
import os, time
from pathlib import Path
step = 0
while not Path(os.environ["ENOUGH"]).exists():
    step += 1
    if os.environ["RANK"] == "0":
        with open(os.environ["MUSTER_REPORT"], "a") as report:
            report.write('{"progress": {"step": %d}}\\n' % step)
    time.sleep(0.1)
with open(os.environ["DONE"], "a") as done:
    done.write(os.environ["MUSTER_EPOCH"] + " " + os.environ["RANK"] + "\\n")
"""


class Up:
    def __init__(self, folder):
        self.data = folder / "data"
        self.log = (folder / "up.log").open("wb")
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        words = ["up", "--data-dir", str(self.data), "--port", "0"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cli.main", *words], env=env, stdout=self.log, stderr=self.log
        )

    def state(self):
        try:
            return json.loads((self.data / "up.json").read_text())
        except (OSError, ValueError):
            return {}

    def client(self):
        return Client(self.state()["url"], (self.data / "token").read_text().strip())

    def kill(self, name):
        pid = self.state()["processes"][name]["pid"]
        if pid is not None:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return False
        return pid is not None

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
            self.process.wait()
            self.log.close()


def until(what, true, seconds=240):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if found := true():
                return found
        except Unreachable:
            pass
        time.sleep(0.1)
    raise AssertionError(f"never: {what}")


@pytest.fixture
def up(tmp_path):
    made = Up(tmp_path)
    until("ready", lambda: made.state().get("ready"))
    yield made
    made.close()


def test_a_job_succeeds_once_through_thirty_kills(up, tmp_path):
    chance = random.Random(SEED)
    enough, done = tmp_path / "enough", tmp_path / "done"
    manifest = json.loads(json.dumps(JOB))
    manifest["spec"] |= {
        "command": [sys.executable, "-c", RANK],
        "workdir": str(tmp_path),
        "env": {"ENOUGH": str(enough), "DONE": str(done)},
    }
    up.client().create(manifest)
    job = lambda: up.client().get("Job", "survivor")  # noqa: E731
    until("running", lambda: job()["status"]["phase"] == "Running")

    killed = 0
    while killed < KILLS:
        time.sleep(chance.uniform(0.05, 0.8))
        for name in chance.sample(VICTIMS, chance.choice([1, 1, 1, 2, 3])):
            killed += up.kill(name)

    until("everything is back", lambda: all(part["pid"] for part in up.state()["processes"].values()))
    until("running after the storm", lambda: job()["status"]["phase"] == "Running")
    enough.touch()
    until("the end", lambda: job()["status"]["phase"] in ("Succeeded", "Failed", "Cancelled"))

    found = lives(up.data / "agents")
    attempts = until("attempts", lambda: up.client().parts("survivor", "attempts"))
    print(f"seed {SEED}: {killed} kills, {len(attempts)} attempts: {[attempt['reason'] for attempt in attempts]}")
    for attempt in attempts[:-1]:
        print(f"  attempt {attempt['number']}: {attempt['verdict']['why']} {attempt['workers']}")
    assert job()["status"]["phase"] == "Succeeded"
    assert [attempt["reason"] for attempt in attempts].count("Succeeded") == 1
    assert all(attempt["phase"] == "Ended" and attempt["reason"] for attempt in attempts)
    assert len(found) == 2 * len(attempts)
    assert overlaps(found) == []
    last = attempts[-1]["epoch"]
    assert sorted(done.read_text().split("\n"))[1:] == [f"{last} {rank}" for rank in range(4)]


def test_overlap_is_seen_when_there_is_one(tmp_path):
    def diary(node, epoch, began, ended):
        path = tmp_path / node / "diaries" / f"w{epoch}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        events = [
            {"event": "shim", "attempt": f"a{epoch}", "epoch": epoch, "t": began - 1},
            {"event": "go", "t": began},
        ]
        events += [{"event": "dead", "t": ended}] if ended else []
        path.write_text("".join(json.dumps(event) + "\n" for event in events))

    diary("n0", 1, 10.0, 20.0)
    diary("n1", 2, 20.5, 30.0)
    assert overlaps(lives(tmp_path)) == []
    diary("n1", 3, 29.0, None)
    assert len(overlaps(lives(tmp_path))) == 1
    diary("n2", 4, 40.0, 50.0)
    assert len(overlaps(lives(tmp_path))) == 2
