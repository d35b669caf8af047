"""Real ranks that stop getting on: found, named, and the gang goes on."""

import sys
from pathlib import Path

import pytest

from tests.up.cluster import Cluster, until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]
PROGRAM = Path(__file__).parent / "programs/gang.py"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = Cluster(tmp_path_factory.mktemp("watching"))
    made.start()
    yield made
    made.close()


def gang(name, fault, **env):
    spec = {
        "workers": 2,
        "ranksPerWorker": 2,
        "command": [sys.executable, str(PROGRAM)],
        "env": {"FAULT": fault, "WHO": "2", "PYTHONPATH": str(Path(__file__).parents[2]), **env},
        "recovery": {"killGrace": "1s", "hangAfter": "3s"},
    }
    return {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(("fault", "words"), [("loop", "spin"), ("stop", "SIGSTOP")])
def test_a_rank_that_hangs_is_named_and_its_gang_restarted(cluster, fault, words):
    client = cluster.client()
    client.create(gang(fault, fault))
    until("it ends", lambda: client.get("Job", fault)["status"]["phase"] == "Succeeded")
    first, second = client.parts(fault, "attempts")
    verdict = first["verdict"]
    assert (verdict["category"], verdict["action"], verdict["culpritRank"]) == ("rank_hung", "restart", 2)
    assert words in verdict["why"]
    assert verdict["nodeAtFault"] is None
    assert second["reason"] == "Succeeded"


def test_a_rank_that_is_ten_times_slower_is_told_of(cluster):
    client = cluster.client()
    client.create(gang("slow", "slow", AT="2", STEPS="60", SECONDS="0.02"))
    said = until("it is found", lambda: [one for one in client.parts("slow", "events") if one["reason"] == "Straggler"])
    assert "rank 2 on" in said[0]["message"]
    until("it ends", lambda: client.get("Job", "slow")["status"]["phase"] == "Succeeded")
    assert client.get("Job", "slow")["status"]["restarts"] == 0


SAVER = """
import json, os, time
import muster.report
begin = muster.report.resume_from()
step = int(begin.rsplit("-", 1)[1]) if begin else 0
speed = __import__("speed").SPEED
folder = muster.report.checkpoint_dir()
while step < 40:
    step += 1
    time.sleep(0.02)
    if step % 10 == 0:
        path = os.path.join(folder, f"step-{step}")
        os.makedirs(path, exist_ok=True)
        open(os.path.join(path, "COMPLETE"), "w").close()
        muster.report.checkpoint(path)
    muster.report.progress(step, loss=1 / step)
    if step == 25 and speed == "old":
        raise SystemExit(3)
"""


def test_a_job_that_failed_begins_anew_with_changed_code_from_a_step(cluster, tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(SAVER)
        (tmp_path / name / "speed.py").write_text(f"SPEED = {name!r}\n")
    spec = {
        "command": [sys.executable, "train.py"],
        "workdir": str(tmp_path / "old"),
        "env": {"PYTHONPATH": str(Path(__file__).parents[2])},
        "checkpoint": {"directory": str(tmp_path / "saved"), "format": "marker"},
        "recovery": {"maxRestarts": 0},
    }
    client = cluster.client()
    client.create({"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": "again"}, "spec": spec})
    until("it fails", lambda: client.get("Job", "again")["status"]["phase"] == "Failed")
    (before,) = client.parts("again", "attempts")
    refused = cluster.muster("restart", "again", "--from", "step=15")
    assert refused.returncode != 0
    assert "there is: 10, 20" in refused.stderr
    done = cluster.muster("restart", "again", "--workdir", tmp_path / "new", "--from", "step=10")
    assert done.returncode == 0, done.stderr
    until("it ends well", lambda: client.get("Job", "again")["status"]["phase"] == "Succeeded")
    (attempt,) = client.parts("again", "attempts")
    assert (attempt["resume"]["step"], attempt["lastStep"]) == (10, 40)
    assert attempt["fingerprint"]["code"] != before["fingerprint"]["code"]
    assert attempt["fingerprint"]["environment"] == before["fingerprint"]["environment"]
