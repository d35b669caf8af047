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
