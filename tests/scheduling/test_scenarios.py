"""Rounds of submissions and ends, each with the steady state that must follow."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from muster.states import JobPhase, NodePhase
from tests.scheduling.cluster import Cluster, gang, pending, queue, racks, wait_of

WHOLE_NODES = {
    "b0/r0": dict.fromkeys(["a0", "a1", "a2", "a3", "a4"], 1),
    "b0/r1": dict.fromkeys(["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"], 1),
    "b0/r2": dict.fromkeys(["d0", "d1", "d2"], 1),
    "b0/r3": dict.fromkeys(["e0", "e1"], 1),
}


def test_tight_fit_keeps_large_racks_whole_for_those_who_need_them() -> None:
    cluster = Cluster(racks(WHOLE_NODES))
    cluster.submit(
        gang("j1", 3, required="rack"),
        gang("j2", 2, required="rack"),
        gang("j3", 5, required="rack"),
        gang("j4", 8, required="rack"),
        gang("j5", 1),
    )
    last = cluster.settle()
    assert {job: cluster.racks_of(job) for job in ("j1", "j2", "j3", "j4")} == {
        "j1": {"b0/r2"},
        "j2": {"b0/r3"},
        "j3": {"b0/r0"},
        "j4": {"b0/r1"},
    }
    assert pending(last) == {"j5": "CAPACITY"}


def test_the_order_of_submission_does_not_break_what_fits_exactly() -> None:
    cluster = Cluster(racks(WHOLE_NODES))
    cluster.submit(*(gang(f"j{pods}", pods, required="rack") for pods in (2, 3, 5, 8)))
    assert not cluster.settle().waits


def test_inside_a_rack_the_fewest_nodes_are_used_and_the_hole_that_is_left_is_whole() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 3, "n1": 3, "n2": 2, "n3": 1}}))
    cluster.submit(gang("k", 7, wanted="rack"))
    cluster.settle()
    assert cluster.placed() == {"k": {"n0": 3, "n1": 3, "n3": 1}}


@pytest.mark.parametrize("limit", [1, 1000])
def test_small_jobs_without_wishes_fill_what_is_broken_first(limit: int) -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8, "n1": 8}, "b0/r1": {"n2": 8, "n3": 8}, "b0/r2": {"n4": 8, "n5": 3}}))
    cluster.submit(*(gang(f"u{i}", max_per_node=limit) for i in range(3)))
    cluster.settle()
    assert cluster.placed() == {f"u{i}": {"n5": 1} for i in range(3)}


def test_a_whole_node_job_goes_to_the_rack_and_the_block_that_are_broken_already() -> None:
    layout = {"b0/r0": {"a0": 8, "a1": 8}, "b0/r1": {"a2": 8, "a3": 8}, "b1/r2": {"c0": 8, "c1": 8}, "b1/r3": {"c2": 8}}
    cluster = Cluster(racks(layout))
    cluster.submit(gang("first", 1, 8))
    cluster.settle()
    assert cluster.placed() == {"first": {"c2": 1}}
    cluster.submit(gang("second", 2, 8, required="rack"))
    cluster.settle()
    assert cluster.racks_of("second") == {"b1/r2"}, "the rack of the broken block, though b0 comes first by name"


def test_ten_gangs_of_ten_queues_take_ten_racks_in_one_plan_and_the_eleventh_waits() -> None:
    layout = {f"b0/r{i}": {f"r{i}n{j}": 8 for j in range(4)} for i in range(10)}
    cluster = Cluster(racks(layout), *(queue(f"q{i}") for i in range(11)))
    cluster.submit(*(gang(f"g{i:02}", 4, 8, required="rack", spec={"queue": f"q{i}"}) for i in range(11)))
    last = cluster.settle()
    assert pending(last) == {"g10": "CAPACITY"}
    assert len({frozenset(cluster.racks_of(f"g{i:02}")) for i in range(10)}) == 10


def test_a_blocked_gang_starts_as_soon_as_a_rack_is_free_again() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8, "n1": 8}, "b0/r1": {"n2": 8, "n3": 8}}))
    cluster.submit(gang("one", 1, 8), gang("two", 1, 8, required="rack"), gang("pair", 2, 8, required="rack"))
    cluster.settle()
    assert cluster.placed() == {"one": {"n0": 1}, "two": {"n1": 1}, "pair": {"n2": 1, "n3": 1}}
    cluster.submit(gang("late", 2, 8, required="rack"))
    assert pending(cluster.settle()) == {"late": "CAPACITY"}
    cluster.end("one")
    assert pending(cluster.settle()) == {"late": "CAPACITY"}
    cluster.end("pair")
    assert not cluster.settle().waits
    assert cluster.placed()["late"] == {"n2": 1, "n3": 1}


def test_what_is_stopping_is_not_free_before_it_is_confirmed_dead() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8}}))
    cluster.submit(gang("old", 1, 8))
    cluster.settle()
    cluster.put(*(w for w in cluster.workers("old")))  # reported again, still alive
    cluster.submit(gang("new", 1, 8))
    assert pending(cluster.settle()) == {"new": "CAPACITY"}
    cluster.end("old", JobPhase.CANCELLED)
    assert not cluster.settle().waits


def test_a_job_of_which_a_worker_still_lives_is_not_started_again() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8, "n1": 8}}))
    cluster.submit(gang("job", 1, 8))
    cluster.settle()
    cluster.put(replace(cluster.index.jobs["job-job"], phase=JobPhase.RECOVERING))
    assert not cluster.settle().waits
    assert cluster.placed() == {"job": {"n0": 1}}


@pytest.mark.parametrize(
    ("first", "second", "served"),
    [
        ({}, {"spec": {"priorityClass": "high"}}, "second"),
        ({"spec": {"priorityClass": "low"}}, {}, "second"),
        ({"spec": {"priorityClass": "high"}}, {"phase": JobPhase.RECOVERING}, "second"),
        ({}, {}, "first"),
        ({"spec": {"priorityClass": "no-such-class"}}, {}, "first"),
    ],
)
def test_repairs_are_served_before_priority_and_priority_before_age(
    first: Mapping[str, Any], second: Mapping[str, Any], served: str
) -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8}}))
    cluster.submit(gang("first", 1, 8, **first), gang("second", 1, 8, **second))
    cluster.settle()
    assert set(cluster.placed()) == {served}


@pytest.mark.parametrize("wish", [{"suspend": True}, {"cancel": True}, {"phase": JobPhase.SUSPENDED}])
def test_who_does_not_want_to_run_is_not_planned(wish: Mapping[str, Any]) -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8}}))
    cluster.submit(gang("job", **wish))
    last = cluster.settle()
    assert (last.groups, last.waits) == ((), ())


def test_after_a_failure_the_gang_goes_back_to_its_nodes_though_a_tighter_rack_is_free() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8, "n1": 8, "n2": 8}, "b0/r1": {"n3": 8, "n4": 8}}))
    cluster.submit(gang("job", 2, 8, required="rack", preferred=("n1", "n2")))
    cluster.settle()
    assert cluster.placed() == {"job": {"n1": 1, "n2": 1}}


def test_going_back_to_its_nodes_comes_before_a_kind_that_the_manifest_names_first() -> None:
    cluster = Cluster([*racks({"b0/r0": {"n0": 8}}), *racks({"b0/r1": {"n1": 8}}, kind="h200")])
    kinds = [{"type": "h200", "count": 8}, {"type": "h100", "count": 8}]
    cluster.submit(gang("job", preferred=("n0",), spec={"accelerators": kinds}))
    cluster.settle()
    assert cluster.placed() == {"job": {"n0": 1}}


def test_preferred_nodes_that_are_too_few_are_given_up_for_a_place_that_holds_the_gang() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8, "n1": 8}, "b0/r1": {"n2": 8, "n3": 8, "n4": 8}}))
    cluster.submit(gang("job", 3, 8, required="rack", preferred=("n0", "n1", "gone")))
    cluster.settle()
    assert cluster.racks_of("job") == {"b0/r1"}


def test_when_a_node_is_lost_the_whole_gang_moves_to_a_rack_that_holds_it() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8, "n1": 8}, "b0/r1": {"n2": 8, "n3": 8}}))
    cluster.submit(gang("job", 2, 8, required="rack"))
    cluster.settle()
    assert cluster.placed() == {"job": {"n0": 1, "n1": 1}}
    cluster.lose("n1")
    cluster.end("job", JobPhase.RECOVERING, preferred=("n0", "n1"))
    cluster.settle()
    assert cluster.placed() == {"job": {"n2": 1, "n3": 1}}


def test_an_excluded_node_is_never_taken_even_if_it_is_all_there_is() -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8, "n1": 4}}))
    cluster.submit(gang("job", 1, 8, excluded=("n0",), preferred=("n0",)))
    last = cluster.settle()
    assert pending(last) == {"job": "CAPACITY"}
    assert "n0, excluded after a failure there" in wait_of(last, "job").helps


@pytest.mark.parametrize("state", [{"cordoned": True}, {"phase": "Unknown"}, {"phase": "Lost"}])
def test_nodes_that_are_cordoned_unknown_or_lost_take_no_new_work_and_keep_what_they_have(
    state: Mapping[str, Any],
) -> None:
    cluster = Cluster(racks({"b0/r0": {"n0": 8, "n1": 8}}))
    cluster.submit(gang("old", 1, 4))
    cluster.settle()
    cluster.node("n0", **_node_state(state))
    cluster.submit(gang("new", 1, 4), gang("more", 1, 8))
    assert pending(cluster.settle()) == {"more": "CAPACITY"}
    assert cluster.placed() == {"old": {"n0": 1}, "new": {"n1": 1}}


def _node_state(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: NodePhase(value) if name == "phase" else value for name, value in state.items()}
