"""`./run chaos`, a short one: a crash, a hang, a spoiled checkpoint and an error of the user's own, on real trainings."""

import pytest

from tests.chaos.training.faults import FAULTS
from tests.chaos.training.trial import trial, undisturbed
from tests.up.cluster import Cluster

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


def test_every_fault_has_its_verdict_and_trainings_end_with_the_weights_of_an_undisturbed_one(tmp_path):
    cluster = Cluster(tmp_path)
    try:
        cluster.start()
        weights = undisturbed(cluster, tmp_path / "undisturbed")
        for fault in FAULTS:
            if fault.name in ("kill", "corrupt", "type_error"):
                shown = trial(cluster, tmp_path / fault.name, fault, fault.name.replace("_", "-"), 7, weights)
                assert shown.problems == (), fault.name
    finally:
        cluster.close()
