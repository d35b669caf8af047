"""Silence, judged by the leader's own boot clock."""

import pytest

from controller.leases import LeaseWatch
from controller.records import LeaseRecord
from muster.protocol import Lease
from muster.states import NodePhase
from tests.makers import make_attempt, make_job, make_node, make_worker

LEASE = Lease(renew=5, unknown=15, fence=300, margin=5)


def watch_after(*renewals_at, node="n0"):
    """A watch that saw the count change at each of these times."""
    watch = LeaseWatch(LEASE)
    for count, at in enumerate(renewals_at):
        watch.observe([LeaseRecord(node, count, "boot", 0.0)], [node], at)
    return watch


@pytest.mark.parametrize(
    ("silence", "was", "want"),
    [
        (0, NodePhase.READY, NodePhase.READY),
        (14.9, NodePhase.READY, NodePhase.READY),
        (15, NodePhase.READY, NodePhase.UNKNOWN),
        (304.9, NodePhase.UNKNOWN, NodePhase.UNKNOWN),
        (305, NodePhase.UNKNOWN, NodePhase.LOST),
        (305, NodePhase.READY, NodePhase.LOST),
        (20, NodePhase.LOST, NodePhase.LOST),
        (1, NodePhase.UNKNOWN, NodePhase.READY),
        (1, NodePhase.LOST, NodePhase.READY),
    ],
)
def test_phase_by_silence(silence, was, want):
    watch = watch_after(100.0, 105.0)
    assert watch.phase(make_node(phase=was), 105.0 + silence) is want


def test_a_new_leader_grants_every_node_one_full_lease():
    watch = LeaseWatch(LEASE)
    watch.observe([LeaseRecord("n0", 17, "boot", 0.0)], ["n0", "never-renewed"], 1000.0)
    for name in ("n0", "never-renewed"):
        assert watch.phase(make_node(name), 1014.0) is NodePhase.READY
        assert watch.phase(make_node(name), 1304.0) is NodePhase.UNKNOWN
        assert watch.phase(make_node(name), 1305.0) is NodePhase.LOST


def test_a_new_leader_does_not_believe_a_lost_node_back_before_it_renews():
    watch = LeaseWatch(LEASE)
    watch.observe([LeaseRecord("n0", 17, "boot", 0.0)], ["n0"], 1000.0)
    assert watch.phase(make_node(phase=NodePhase.LOST), 1001.0) is NodePhase.LOST
    watch.observe([LeaseRecord("n0", 18, "boot", 0.0)], ["n0"], 1002.0)
    assert watch.phase(make_node(phase=NodePhase.LOST), 1003.0) is NodePhase.READY


def test_a_repeated_look_at_the_same_count_is_silence():
    watch = watch_after(100.0)
    for at in range(101, 120):
        watch.observe([LeaseRecord("n0", 0, "boot", 0.0)], ["n0"], float(at))
    assert watch.silence("n0", 120.0) == 20.0


@pytest.mark.parametrize(("fence", "silence", "want"), [(5.0, 9.9, False), (5.0, 10.0, True), (None, 1e9, False)])
def test_a_worker_is_fenced_by_its_own_fence_and_the_margin(fence, silence, want):
    worker = make_worker(make_attempt(make_job()), fence=fence)
    assert watch_after(100.0).fenced(worker, 100.0 + silence) is want
