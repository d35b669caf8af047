"""`muster up` with all of its real parts: it comes up, stands every death, and leaves nothing however it ends."""

import json
import os
import signal

import pytest

from cli.up import processes
from tests.up.cluster import Cluster, alive, identities, job, marked, until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]
STUBBORN = "trap '' TERM; sleep 3000 & sleep 3000"
"""Ignores SIGTERM, and so do its children, which outlive it if nobody cares."""


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def running(cluster, name, fence=None):
    """Submit a job and wait until it runs; its processes with their identities: the shim and all below it."""
    client = cluster.client()
    client.create(job(name, STUBBORN, fence))
    until(f"{name} runs", lambda: client.get("Job", name)["status"]["phase"] == "Running")
    shims = until("a shim", cluster.shims)
    until("the script and its children", lambda: all(len(processes.descendants(shim)) >= 3 for shim in shims))
    return identities(shims + [pid for shim in shims for pid in processes.descendants(shim)])


def test_a_cluster_comes_up_refuses_a_second_stands_every_death_and_leaves_nothing_at_sigterm(cluster, tmp_path):
    cluster.start()
    folder = cluster.layout.folder
    assert cluster.layout.token.stat().st_mode & 0o777 == 0o600
    assert cluster.layout.control.stat().st_mode & 0o777 == 0o600

    listed = cluster.muster("get", "nodes", "-o", "json")
    nodes = json.loads(listed.stdout)["items"]
    assert [node["metadata"]["name"] for node in nodes] == ["node-0", "node-1"]
    assert {len(node["status"]["devices"]) for node in nodes} == {8}

    second = cluster.muster("up", "--port", "0")
    assert second.returncode == 1
    assert second.stderr.startswith(
        f"error: a cluster is already running in {folder} (pid {cluster.process.pid})\nhint: "
    )
    port = cluster.layout.read_state()["port"]
    elsewhere = cluster.muster("up", "--data-dir", tmp_path / "other", "--port", port)
    assert elsewhere.returncode == 1
    assert f"error: port {port} on 127.0.0.1 is in use by another program\nhint: " in elsewhere.stderr

    worked = running(cluster, "stubborn", fence="2m")
    before = cluster.processes()
    assert None not in before.values()
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)
    after = until("all are back", lambda: _all_new(cluster, before))
    assert alive(worked) == {pid for pid, _ in worked}, "ranks and their shim outlive every part of the cluster"
    until("nodes are ready again", lambda: _ready_nodes(cluster) == 2)
    until("the job is as it was", lambda: cluster.client().get("Job", "stubborn")["status"]["phase"] == "Running")
    assert cluster.client().get("Job", "stubborn")["status"]["restarts"] == 0

    everybody = worked | identities([*after.values(), cluster.process.pid])
    cluster.process.send_signal(signal.SIGTERM)
    assert cluster.process.wait(120) == 0
    assert alive(everybody) == set()
    assert marked(folder) == set()
    assert not cluster.layout.state.exists()
    assert not cluster.layout.control.exists()
    assert cluster.log.read_text().splitlines()[-1] == "stopped; nothing is left running"
    assert cluster.muster("down").stdout == f"no cluster is running in {folder}\n"
    unreachable = cluster.muster("get", "jobs")
    assert unreachable.returncode == 5


def _all_new(cluster, before):
    now = cluster.processes()
    return now if all(now[name] not in (None, pid) for name, pid in before.items()) else None


def _ready_nodes(cluster):
    return sum(node["status"]["phase"] == "Ready" for node in cluster.client().list("Node"))


def test_sigkill_of_up_leaves_nothing_and_the_next_up_goes_on_with_the_job(cluster):
    cluster.start()
    folder = cluster.layout.folder
    worked = running(cluster, "stubborn", fence="never")
    parts = identities(cluster.processes().values())
    cluster.process.kill()
    cluster.process.wait()
    until("the parts are gone", lambda: not alive(parts), seconds=30)
    until("shim and ranks are gone, though their fence is never", lambda: not alive(worked), seconds=60)
    until("nothing names the folder", lambda: not marked(folder), seconds=30)
    assert cluster.muster("down").stdout == f"no cluster is running in {folder}\n"

    cluster.start()
    client = cluster.client()
    until("a second attempt runs", lambda: _attempt(client, "stubborn") == (2, "Running"))
    client.delete("Job", "stubborn")
    until("it has ended", lambda: client.get("Job", "stubborn")["status"]["phase"] == "Cancelled")

    worked = running(cluster, "fenced")
    os.kill(cluster.layout.read_state()["watchdog"], signal.SIGKILL)
    cluster.process.kill()
    cluster.process.wait()
    until("without a watchdog the fence ends them", lambda: not alive(worked), seconds=60)
    until("nothing names the folder", lambda: not marked(folder), seconds=30)


def test_an_up_right_after_a_kill_waits_for_the_end_of_the_former_one(cluster):
    cluster.start()
    worked = running(cluster, "stubborn", fence="never")
    cluster.process.kill()
    cluster.process.wait()
    cluster.start()
    assert not alive(worked), "two clusters never have one directory"
    client = cluster.client()
    until("a second attempt runs", lambda: _attempt(client, "stubborn") == (2, "Running"))
    assert cluster.muster("down").returncode == 0
    assert cluster.process.wait(30) == 0
    assert marked(cluster.layout.folder) == set()


def _attempt(client, name):
    attempt = client.get("Job", name)["status"]["attempt"] or {}
    return attempt.get("number"), attempt.get("phase")
