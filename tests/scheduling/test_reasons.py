"""What a waiting job is told: the binding code, the numbers, the rest, and what would help."""

from collections.abc import Mapping
from typing import Any

import pytest

from controller.records import JobRecord, NodeRecord
from controller.scheduling.planner import fits_empty
from muster.quantity import MAX_CPU_MILLI, MAX_MEMORY
from muster.reasons import Waiting
from muster.states import NodePhase
from tests.scheduling.cluster import Cluster, gang, queue, racks, wait_of

LEAVES = {"b0/l0": {"n0": 8, "n1": 4}, "b0/l1": {"n2": 8, "n3": 4}}


def told(nodes: list[NodeRecord], job: JobRecord, *before: JobRecord) -> tuple[str, str, str]:
    cluster = Cluster(nodes)
    cluster.submit(*before, job)
    wait = wait_of(cluster.settle(), job.name)
    return str(wait.code), wait.message, wait.helps


CASES: list[tuple[str, dict[str, Any], tuple[str, str, str]]] = [
    (
        "enough devices, but no rack holds them",
        {"pods": 2, "per_pod": 8, "required": "rack"},
        (
            "TOPOLOGY_FRAGMENTED",
            "needs 2 workers x 8 h100 in one rack; the best rack, l0, has room for 1; room for 2: 1 in l0 (n0) + 1 in l1 (n2)",
            "topology.required: block has room",
        ),
    ),
    (
        "enough devices, but not on whole nodes",
        {"pods": 3, "per_pod": 8},
        ("TOPOLOGY_FRAGMENTED", "needs 3 workers x 8 h100; the cluster has room for 2", ""),
    ),
    (
        "not enough devices at all",
        {"pods": 4, "per_pod": 8},
        ("CAPACITY", "needs 4 workers x 8 h100; the cluster has room for 2; 24 of 24 h100 are free", ""),
    ),
    (
        "a kind that nobody has",
        {"kind": "mi300x"},
        (
            "CAPACITY",
            "needs 1 worker x 1 mi300x; no node has room for one; no node has mi300x",
            "the cluster has h100",
        ),
    ),
    (
        "too few nodes for one worker a node",
        {"pods": 6, "per_pod": 1, "max_per_node": 1},
        (
            "CAPACITY",
            "needs 6 workers x 1 h100; the cluster has room for 4",
            "there is room with more than 1 worker on a node (maxPerNode)",
        ),
    ),
    (
        "memory is short on every node",
        {"per_pod": 4, "spec": {"memory": "2Ti"}},
        (
            "TOPOLOGY_FRAGMENTED",
            "needs 1 worker x 4 h100; no node has room for one; memory is what is short (2Ti for each worker)",
            "",
        ),
    ),
    (
        "CPU is short in the whole cluster",
        {"per_pod": 4, "spec": {"cpu": "9000"}},
        (
            "CAPACITY",
            "needs 1 worker x 4 h100; no node has room for one; CPU is what is short (9000 for each worker)",
            "",
        ),
    ),
    (
        "a job without devices speaks of CPU and memory",
        {"per_pod": 0, "pods": 9, "max_per_node": 1},
        (
            "CAPACITY",
            "needs 9 workers x 1 CPU and 256Mi; the cluster has room for 4",
            "there is room with more than 1 worker on a node (maxPerNode)",
        ),
    ),
]


@pytest.mark.parametrize(("job", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_waiting_job_is_told_why_with_the_numbers(job: Mapping[str, Any], expected: tuple[str, str, str]) -> None:
    assert told(racks(LEAVES), gang("job", **job)) == expected


def test_devices_in_use_are_counted() -> None:
    assert told(racks(LEAVES), gang("job", 1, 8, required="rack"), gang("before", 5, 4)) == (
        "CAPACITY",
        "needs 1 worker x 8 h100 in one rack; no rack has room for one; 4 of 24 h100 are free",
        "",
    )


def test_cordoned_and_unreachable_nodes_are_named_when_they_would_count() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8, "n1": 8, "n2": 8, "small": 2}}))
    cluster.node("n0", cordoned=True)
    cluster.node("small", cordoned=True)
    cluster.node("n1", phase=NodePhase.UNKNOWN)
    cluster.submit(gang("job", 2, 8))
    wait = wait_of(cluster.settle(), "job")
    assert wait.helps == "n0 is cordoned; n1 is not reachable"


def test_long_lists_of_nodes_are_cut() -> None:
    cluster = Cluster(racks({"b0/r0": {f"n{i}": 8 for i in range(7)}}, cordoned=True))
    cluster.submit(gang("job", 1, 8))
    assert wait_of(cluster.settle(), "job").helps == "n0, n1, n2, n3 and 3 more are cordoned"


def test_several_kinds_are_explained_one_by_one_and_the_first_code_binds() -> None:
    nodes = [*racks(LEAVES), *racks({"b1/l9": {"x0": 4}}, kind="h200")]
    kinds = [{"type": "h200", "count": 8}, {"type": "h100", "count": 8}]
    cluster = Cluster(nodes)
    cluster.submit(gang("job", 2, required="rack", spec={"accelerators": kinds}))
    wait = wait_of(cluster.settle(), "job")
    assert wait.code == Waiting.CAPACITY
    assert wait.others == (Waiting.TOPOLOGY_FRAGMENTED, Waiting.STRUCTURAL)
    assert wait.message == (
        "needs 2 workers x 8 h200 in one rack; no rack has room for one; 4 of 4 h200 are free; "
        "or needs 2 workers x 8 h100 in one rack; the best rack, l0, has room for 1"
        "; room for 2: 1 in l0 (n0) + 1 in l1 (n2)"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [("closed", "queue closed is stopped"), ("nowhere", "queue nowhere does not exist")],
)
def test_stopped_and_unknown_queues_hold_their_jobs(name: str, message: str) -> None:
    cluster = Cluster(racks(LEAVES), queue("closed", stopped=True), queue("open"))
    cluster.submit(gang("job", spec={"queue": name}), gang("other", spec={"queue": "open"}), gang("plain"))
    last = cluster.settle()
    assert set(cluster.placed()) == {"other", "plain"}
    assert (wait_of(last, "job").code, wait_of(last, "job").message) == (Waiting.QUOTA, message)


def test_a_queue_that_is_started_or_made_later_lets_its_jobs_go() -> None:
    cluster = Cluster(racks(LEAVES), queue("closed", stopped=True))
    cluster.submit(gang("a", spec={"queue": "closed"}), gang("b", spec={"queue": "new"}))
    cluster.settle()
    cluster.put(queue("closed", stopped=False), queue("new"))
    assert not cluster.settle().waits
    cluster.delete(cluster.index.queues["new"])
    cluster.submit(gang("c", spec={"queue": "new"}))
    assert wait_of(cluster.settle(), "c").code == Waiting.QUOTA


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"pods": 2, "per_pod": 8, "required": "rack"}, "the best rack, l0, has room for 1"),
        ({"pods": 3, "per_pod": 8}, "the cluster has room for 2"),
        ({"per_pod": 9}, "needs 1 worker x 9 h100"),
        ({"kind": "b200"}, "no node has b200"),
    ],
)
def test_what_could_not_fit_even_an_empty_cluster_is_warned_of_at_submit(job: Mapping[str, Any], message: str) -> None:
    cluster = Cluster(racks(LEAVES))
    cluster.submit(gang("job", **job))
    warning = fits_empty(cluster.index, cluster.index.gangs["job-job"])
    assert warning is not None
    assert warning.code == Waiting.STRUCTURAL
    assert message in warning.message
    assert Waiting.STRUCTURAL in wait_of(cluster.settle(), "job").others


def test_what_fits_an_empty_cluster_is_not_structural_though_everything_is_taken_or_away() -> None:
    cluster = Cluster(racks(LEAVES))
    cluster.submit(gang("all", 6, 4))
    cluster.settle()
    cluster.node("n0", phase=NodePhase.UNKNOWN)
    cluster.node("n2", cordoned=True)
    cluster.submit(gang("job", 2, 8))
    assert fits_empty(cluster.index, cluster.index.gangs["job-job"]) is None
    assert wait_of(cluster.settle(), "job").others == ()


def test_a_lost_node_does_not_count_as_what_there_is() -> None:
    cluster = Cluster(racks(LEAVES))
    cluster.lose("n0")
    cluster.submit(gang("job", 2, 8))
    assert fits_empty(cluster.index, cluster.index.gangs["job-job"]) is not None


def test_a_job_that_names_no_level_of_the_fabric_is_not_warned_of_twice() -> None:
    cluster = Cluster(racks(LEAVES))
    cluster.submit(gang("job", 99, required="pod"))
    assert fits_empty(cluster.index, cluster.index.gangs["job-job"]) is None


@pytest.mark.parametrize(
    ("pods", "per_pod", "cpu"), [(100_000, 1024, MAX_CPU_MILLI), (100_000, 0, MAX_CPU_MILLI), (1, 0, 1000), (1, 1, 1)]
)
def test_the_largest_requests_that_a_manifest_may_hold_wait_like_any_other(pods: int, per_pod: int, cpu: int) -> None:
    cluster = Cluster(racks(LEAVES))
    cluster.submit(gang("job", pods, per_pod, max_per_node=1024, spec={"memory": str(MAX_MEMORY), "cpu": f"{cpu}m"}))
    assert wait_of(cluster.settle(), "job").code == Waiting.CAPACITY
