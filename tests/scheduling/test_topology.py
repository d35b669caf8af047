"""Levels that must and levels that should be shared, and nodes that say nothing of where they are."""

import pytest

from controller.scheduling.fabric import path_of, weave
from controller.scheduling.index import build, levels, unknown_level
from controller.scheduling.planner import plan
from tests.makers import NOW, make_node
from tests.scheduling.cluster import LEVELS, Cluster, gang, pending, racks, wait_of


def test_a_gang_without_a_required_level_may_spread_over_everything() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8}, "b1/r1": {"n1": 8}, "": {"n2": 8}}))
    cluster.submit(gang("job", 3, 8))
    decided = plan(cluster.index, NOW)
    assert [worker.node for worker in decided.groups[0].start.workers] == ["n0", "n1", "n2"]
    assert decided.groups[0].start.domain == ""


def test_unlabelled_nodes_satisfy_no_constraint_not_even_together_but_run_what_has_none() -> None:
    cluster = Cluster(racks({"b0/": {"u0": 8, "u1": 8}, "b0/rack-7": {"rack-7": 8}}))
    cluster.submit(gang("one", 2, 4, required="rack", max_per_node=1), gang("two", 1, 8, required="rack"))
    assert pending(cluster.settle()) == {"one": "TOPOLOGY_FRAGMENTED"}
    assert cluster.placed() == {"two": {"rack-7": 1}}, "a node may be called like a domain"
    cluster.submit(gang("free", 2, 8, required="block"))
    cluster.settle()
    assert cluster.placed()["free"] == {"u0": 1, "u1": 1}


def test_a_single_worker_that_needs_a_rack_never_lies_on_a_node_without_one() -> None:
    cluster = Cluster(racks({"b0/": {"a": 8}, "b0/r0": {"z": 8}}))
    cluster.submit(gang("job", 1, 1, required="rack"))
    cluster.settle()
    assert cluster.placed() == {"job": {"z": 1}}


def test_a_preferred_level_is_kept_where_it_can_be_and_given_up_where_not() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8, "n1": 8}, "b0/r1": {"n2": 8}}))
    cluster.submit(gang("small", 2, 8, required="block", wanted="rack"))
    cluster.settle()
    assert cluster.racks_of("small") == {"b0/r0"}
    cluster.end("small")
    cluster.submit(gang("large", 3, 8, required="block", wanted="rack"))
    cluster.settle()
    assert cluster.placed() == {"large": {"n0": 1, "n1": 1, "n2": 1}}


def test_a_preferred_rack_draws_a_single_worker_away_from_nodes_without_one() -> None:
    cluster = Cluster(racks({"": {"a": 8}, "b0/r0": {"z": 8}}))
    cluster.submit(gang("job", 1, 8, wanted="rack"), gang("next", 1, 8, wanted="rack"))
    cluster.settle()
    assert cluster.placed() == {"job": {"z": 1}, "next": {"a": 1}}


def test_required_node_packs_the_gang_onto_one_node() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 6, "n1": 8}}))
    cluster.submit(gang("job", 4, 2, required="node"), gang("more", 4, 2, required="node"))
    last = cluster.settle()
    assert cluster.placed() == {"job": {"n1": 4}}
    assert wait_of(last, "more").message == (
        "needs 4 workers x 2 h100 on one node; the best node, n0, has room for 3; 6 of 14 h100 are free"
    )


def test_a_spread_gang_uses_the_fewest_racks_and_leaves_the_small_one_alone() -> None:
    cluster = Cluster(
        racks(
            {
                "b0/r0": {"a0": 1, "a1": 1, "a2": 1},
                "b0/r1": {"c0": 1, "c1": 1, "c2": 1, "c3": 1},
                "b0/r2": {"d0": 1, "d1": 1, "d2": 1, "d3": 1, "d4": 1},
            }
        )
    )
    cluster.submit(gang("job", 9, 1, required="block"))
    cluster.settle()
    assert cluster.racks_of("job") == {"b0/r1", "b0/r2"}


def test_ranks_follow_the_fabric_not_the_names_of_the_nodes() -> None:
    cluster = Cluster(racks({"b0/r1": {"a": 8, "d": 8}, "b0/r0": {"b": 8, "c": 8}}))
    cluster.submit(gang("job", 4, 8))
    cluster.settle()
    assert [worker.node for worker in cluster.workers("job")] == ["b", "c", "a", "d"]


def test_workers_that_share_a_node_have_neighbouring_ranks() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 4, "n1": 4}}))
    cluster.submit(gang("job", 4, 2))
    cluster.settle()
    assert [(worker.node, worker.devices) for worker in cluster.workers("job")] == [
        ("n0", (0, 1)),
        ("n0", (2, 3)),
        ("n1", (0, 1)),
        ("n1", (2, 3)),
    ]


def test_racks_of_the_same_name_in_two_blocks_are_two_racks() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8}, "b1/r0": {"n1": 8}}))
    cluster.submit(gang("job", 2, 8, required="rack"))
    last = cluster.settle()
    assert pending(last) == {"job": "TOPOLOGY_FRAGMENTED"}
    assert "the best rack, b0/r0, has room for 1" in wait_of(last, "job").message


@pytest.mark.parametrize(
    ("level", "suggestion"), [("rakc", "rack"), ("Rack", "rack"), ("nodes", "node"), ("zone", None)]
)
def test_a_level_that_the_fabric_does_not_have_is_refused_with_what_was_meant(
    level: str, suggestion: str | None
) -> None:
    index = build([], levels=LEVELS)
    error = unknown_level(index, level, "spec.topology.required")
    assert error is not None
    assert (error.field, error.code, error.found) == ("spec.topology.required", "INVALID_TOPOLOGY", level)
    assert (error.allowed, error.suggestion) == (levels(index), suggestion)


@pytest.mark.parametrize("level", [None, "block", "rack", "node"])
def test_known_levels_are_accepted_even_without_a_node(level: str | None) -> None:
    assert unknown_level(build([], levels=LEVELS), level, "spec.topology.preferred") is None


def test_the_usual_levels_are_block_and_leaf() -> None:
    assert levels(build([])) == ("block", "leaf", "node")


def test_a_job_that_names_an_unknown_level_waits_and_never_runs_unconstrained() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8}}))
    cluster.submit(gang("job", required="pod"))
    last = cluster.settle()
    assert pending(last) == {"job": "INVALID_TOPOLOGY"}
    assert wait_of(last, "job").message == "the fabric has no level pod; its levels are block, rack, node"


def test_a_node_that_moves_to_another_rack_keeps_its_work_and_counts_there() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8, "n1": 8}}))
    cluster.submit(gang("old", 1, 4))
    cluster.settle()
    cluster.node("n0", labels={"muster.dev/block": "b0", "muster.dev/rack": "r9"})
    assert cluster.placed() == {"old": {"n0": 1}}
    cluster.submit(gang("pair", 2, 4, required="rack", max_per_node=1))
    assert pending(cluster.settle()) == {"pair": "TOPOLOGY_FRAGMENTED"}


def test_every_domain_is_one_slice_of_the_fabric_order() -> None:
    nodes = racks({"b1/r0": {"x": 1, "a": 1}, "b0/r1": {"q": 1}, "b0/": {"m": 1, "n": 1}, "b0/r0": {"p": 1}})
    fabric = weave({node.name: path_of(node.labels, LEVELS) for node in reversed(nodes)}, LEVELS)
    assert fabric.nodes == ("p", "q", "m", "n", "a", "x")
    rack = fabric.levels[2]
    assert rack.names == ("b0/r0", "r1", "", "", "b1/r0")
    assert list(zip(rack.starts.tolist(), rack.ends.tolist(), strict=True)) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 6)]
    assert rack.labelled.tolist() == [True, True, False, False, True]


def test_an_empty_cluster_plans_nothing_and_says_so() -> None:
    cluster = Cluster([])
    cluster.submit(gang("job", required="rack"), gang("loose"), gang("cpu", per_pod=0))
    last = cluster.settle()
    assert pending(last) == dict.fromkeys(["job", "loose", "cpu"], "CAPACITY")
    assert wait_of(last, "job").message == (
        "needs 1 worker x 1 h100 in one rack; no node is labelled with its rack; no node has h100"
    )


def test_a_node_that_appears_lets_the_waiting_job_start() -> None:
    cluster = Cluster([])
    cluster.submit(gang("job", 2, 8, required="rack"))
    cluster.settle()
    for node in racks({"b0/r0": {"n0": 8, "n1": 8}}):
        cluster.put(node)
    assert not cluster.settle().waits


def test_a_node_that_is_deleted_is_no_longer_room() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8, "n1": 8}}))
    cluster.delete(cluster.index.nodes["n0"])
    cluster.submit(gang("job", 2, 8))
    assert pending(cluster.settle()) == {"job": "CAPACITY"}


def test_a_node_with_a_bare_label_value_is_unlabelled() -> None:
    assert path_of(make_node("n", labels={"muster.dev/rack": ""}).labels, LEVELS) == (None, None)


def test_a_rack_without_a_block_is_still_a_rack_and_lies_in_no_block() -> None:
    cluster = Cluster(racks({"/r0": {"n0": 8, "n1": 8}, "b0/r1": {"n2": 8}}))
    cluster.submit(gang("rack", 2, 4, required="rack", max_per_node=1), gang("block", 2, 4, required="block"))
    cluster.settle()
    assert cluster.placed() == {"rack": {"n0": 1, "n1": 1}, "block": {"n2": 2}}
