"""Faults of virtual devices on a running cluster become the right conditions, keep work away, and are repaired."""

import json
import time

import pytest

from tests.up.cluster import Cluster, job, until

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]
QUICK = 2.0
"""Seconds from a kernel's line to the condition at the controller, on a machine that is not loaded."""


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def test_faults_become_conditions_a_device_less_a_drain_and_a_repair(cluster):
    cluster.start("--repair", '{"patience": 1}')
    client = cluster.client()

    def node(name):
        return client.get("Node", name)["status"]

    def reasons(name):
        return {(one["reason"], one["device"]) for one in node(name)["conditions"]}

    client.create(job("busy", "sleep 3000", None))
    until("it runs", lambda: client.get("Job", "busy")["status"]["phase"] == "Running")
    home = client.get("Job", "busy")["status"]["workers"][0]["node"]
    other = next(name for name in ("node-0", "node-1") if name != home)

    began = time.monotonic()
    assert cluster.muster("lab", "fault", other, "xid", "79", "--device", "3").returncode == 0
    until("the condition", lambda: ("Xid79", 3) in reasons(other))
    assert time.monotonic() - began < 20 * QUICK
    assert [one["index"] for one in node(other)["devices"] if not one["healthy"]] == [3]
    for kind in ("ecc", "link-down", "missing"):
        cluster.muster("lab", "fault", other, kind, "--device", "5")
    wanted = {("EccUncorrected", 5), ("LinkDown", 5), ("DeviceMissing", 5)}
    until("the others", lambda: reasons(other) & wanted)
    until("its count is short", lambda: ("DeviceMissing", 5) in reasons(other))
    until("it is out", lambda: client.get("Node", other)["spec"]["cordoned"])
    described = cluster.muster("describe", "node", other).stdout
    assert "Xid79" in described
    assert "Repairs:" in described

    cluster.muster("lab", "heal", other)
    cluster.muster("uncordon", other)
    until("all are offered but the one that the kernel gave up", lambda: _bad(node(other)) == [3])
    drained = cluster.muster("drain", home, "--reason", "test")
    assert drained.returncode == 0, drained.stderr
    assert "drained" in drained.stdout
    until("the job goes on elsewhere", lambda: client.get("Job", "busy")["status"]["workers"][0]["node"] == other)
    attempts = json.loads(cluster.muster("get", "attempts", "busy", "-o", "json").stdout)["items"]
    assert attempts[0]["reason"] == "Drained"

    cluster.muster("uncordon", home)
    words = ("node", "check", home, "--peers", "0", "--backend", "plain", "--seconds", "0.1")
    checked = cluster.muster(*words)
    assert checked.returncode == 0, checked.stderr
    assert "1 result, all as they should be" in checked.stdout
    assert "memory" in cluster.muster("node", "checks", home).stdout


def _bad(status):
    return [one["index"] for one in status["devices"] if not one["healthy"]]
