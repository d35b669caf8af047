"""Nodes with labels that contradict each other, with names of domains, or alone in their rack."""

import pytest

from controller.records import NodeRecord
from tests.makers import make_node
from tests.scheduling.cluster import Cluster, gang, pending


def node(name: str, block: str = "", rack: str = "", devices: int = 8) -> NodeRecord:
    labels = {f"muster.dev/{level}": value for level, value in (("block", block), ("rack", rack)) if value}
    return make_node(name, devices, labels=labels)


def placed(cluster_nodes: list[NodeRecord], pods: int, required: str | None, **more: object) -> dict[str, int] | str:
    cluster = Cluster(cluster_nodes)
    cluster.submit(gang("a", pods, 8, required=required, max_per_node=1, spec=more))
    last = cluster.settle()
    return cluster.placed().get("a") or pending(last)["a"]


@pytest.mark.parametrize(
    ("nodes", "pods", "required", "expected"),
    [
        # one name of a rack in two blocks: two racks
        ([node("n0", "b0", "r"), node("n1", "b1", "r")], 2, "rack", "TOPOLOGY_FRAGMENTED"),
        ([node("n0", "b0", "r"), node("n1", "b0", "r"), node("n2", "b1", "r")], 2, "rack", {"n0": 1, "n1": 1}),
        # a node that is called like a rack or a block is a node like any other
        ([node("r0", "b0", "r0"), node("b0", "b0", "r0"), node("n2", "b1", "r1")], 2, "rack", {"b0": 1, "r0": 1}),
        ([node("r0", "b0", "r0"), node("b0", "b0", "r0")], 1, "node", {"b0": 1}),
        # racks of one node each
        ([node(f"n{i}", "b0", f"r{i}") for i in range(3)], 2, "rack", "TOPOLOGY_FRAGMENTED"),
        ([node(f"n{i}", "b0", f"r{i}") for i in range(3)], 3, "block", {"n0": 1, "n1": 1, "n2": 1}),
        # a node without a level's label satisfies no constraint at that level
        ([node("n0", "b0"), node("n1", "b0")], 2, "rack", "TOPOLOGY_FRAGMENTED"),
        ([node("n0", "", "r0"), node("n1", "b0", "r0")], 2, "rack", "TOPOLOGY_FRAGMENTED"),
        ([node("n0"), node("n1")], 2, None, {"n0": 1, "n1": 1}),
        ([], 1, None, "CAPACITY"),
    ],
)  # fmt: skip
def test_odd_nodes_are_taken_for_what_they_say(
    nodes: list[NodeRecord], pods: int, required: str | None, expected: dict[str, int] | str
) -> None:
    assert placed(nodes, pods, required) == expected


def test_an_excluded_name_of_a_domain_excludes_only_the_node_of_that_name() -> None:
    nodes = [node("r0", "b0", "r0"), node("n1", "b0", "r0"), node("n2", "b0", "r0")]
    assert placed(nodes, 2, "rack", nodes={"exclude": ["r0"]}) == {"n1": 1, "n2": 1}
