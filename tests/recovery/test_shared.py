"""Failures of several jobs with one cause."""

from controller.records import IncidentRecord, Verdict
from controller.recovery.shared import with_shared_cause
from tests.makers import NOW, make_node

LEAF = {name: make_node(name, labels={"muster.dev/leaf": leaf}) for name, leaf in
        (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b"))}  # fmt: skip


def lost(*nodes):
    return Verdict(category="node_lost", action="replace", why="lost", culprit_nodes=nodes, node_at_fault=True)


def stale(path):
    return Verdict(category="storage", action="restart", why="x", decided_by=(f"OSError: [Errno 116] '{path}/f.tar'",))


def incident(job, verdict, ago=60.0):
    return IncidentRecord(uid=f"i-{job}", job_uid=job, namespace="d", job_name=job, attempt_uid="a", verdict=verdict,
                          opened_at=NOW - ago)  # fmt: skip


def judged(verdict, *others):
    return with_shared_cause(verdict, "mine", others, LEAF, NOW)


def test_nodes_of_one_leaf_lost_by_several_jobs_are_not_to_blame():
    found = judged(lost("a1"), incident("x", lost("a2")), incident("y", lost("a3")))
    assert (found.node_at_fault, found.culprit_nodes, found.action) == (False, (), "replace")
    assert "3 nodes of leaf a" in found.why


def test_nodes_here_and_there_or_at_other_times_have_nothing_in_common():
    for others in (
        [incident("x", lost("b1")), incident("y", lost("b2"))],
        [incident("x", lost("a2"), 3600), incident("y", lost("a3"), 3600)],
        [incident("mine", lost("a2", "a3"))],
        [incident("x", lost("a2"))],
        [],
    ):
        assert judged(lost("a1"), *others).culprit_nodes == ("a1",)


def test_one_mount_that_several_jobs_cannot_use_is_named():
    assert "2 jobs fail at /mnt/data" in judged(stale("/mnt/data"), incident("x", stale("/mnt/data"))).why
    assert judged(stale("/mnt/data"), incident("x", stale("/mnt/other"))) == stale("/mnt/data")
