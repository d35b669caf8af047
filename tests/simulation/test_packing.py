"""The openb set-up: arrivals, room, kept costs, departures, and bad input; the published values where the data is."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.common import BadInput
from benchmarks.openb import changed
from benchmarks.packing import Chooser, Nodes, Pod, arrivals, read_nodes, read_pods, simulate
from benchmarks.packing_policies import POLICIES
from controller.scheduling.discipline.fragmentation import Shape

SHARED = Path(__file__).parents[3] / "shared" / "traces" / "openb"
ROWS = [("n2", 16_000, 64, 2, "A"), ("n1", 32_000, 64, 4, "B"), ("n3", 96_000, 512, 8, "A"), ("n4", 8_000, 64, 0, "")]
SHAPES = [
    Shape(4000, 1, 1000),
    Shape(2000, 1, 500),
    Shape(1000, 1, 300),
    Shape(8000, 2, 1000),
    Shape(2000, 0, 0),
    Shape(4000, 1, 1000, ("B",)),
]
pods = st.lists(st.sampled_from(SHAPES).map(lambda shape: Pod(shape, 4)), min_size=1, max_size=40)


@settings(max_examples=25, deadline=None)
@given(pods, st.sampled_from(sorted(POLICIES)))
def test_kept_costs_are_what_a_new_look_would_find(order: list[Pod], name: str) -> None:
    nodes = Nodes(ROWS)
    chooser = Chooser(nodes, POLICIES[name](nodes, order, 1))
    for pod in order:
        where = chooser.choose(pod)
        assert (where is None) == (len(nodes.fitting(pod, np.arange(len(ROWS)))) == 0)
        if name != "random":
            known = chooser.known[(pod.shape, pod.memory)].cost.copy()
            fresh = np.full(len(ROWS), np.inf)
            room = nodes.fitting(pod, np.arange(len(ROWS)))
            if len(room):
                fresh[room] = chooser.rule.costs(pod, room)[0]
            assert known.tolist() == fresh.tolist()
        if where is not None:
            nodes.take(pod, *where)
            chooser.changes.append(where[0])
    assert nodes.cpu.min() >= 0
    assert nodes.memory.min() >= 0
    assert nodes.gpu.min() >= -1


@given(pods)
def test_what_is_released_is_free_again(order: list[Pod]) -> None:
    nodes = Nodes(ROWS)
    whole = (nodes.cpu.tolist(), nodes.memory.tolist(), nodes.gpu.tolist())
    chooser = Chooser(nodes, POLICIES["bestfit"](nodes, order, 1))
    taken = []
    for pod in order:
        where = chooser.choose(pod)
        if where is not None:
            taken.append((pod, where[0], nodes.take(pod, *where)))
            chooser.changes.append(where[0])
    for pod, node, devices in taken:
        nodes.release(pod, node, devices)
    assert (nodes.cpu.tolist(), nodes.memory.tolist(), nodes.gpu.tolist()) == whole


def test_nodes_are_in_the_order_of_their_names() -> None:
    assert Nodes(ROWS).names == ["n1", "n2", "n3", "n4"]


def test_a_pod_that_insists_on_a_kind_gets_no_other() -> None:
    nodes = Nodes(ROWS)
    assert nodes.fitting(Pod(SHAPES[-1], 1), np.arange(4)).tolist() == [0]


def test_arrivals_grow_by_copies_at_the_end() -> None:
    few = [Pod(Shape(1, 1, 1000), 1), Pod(Shape(2, 1, 500), 1)]
    order = arrivals(few, 10_000, 42)
    assert {pod.shape for pod in order[:2]} == {pod.shape for pod in few}
    assert 10_000 <= sum(pod.milli for pod in order) < 11_000
    assert order == arrivals(few, 10_000, 42) != arrivals(few, 10_000, 43)


def test_arrivals_shrink_when_the_workload_is_too_large() -> None:
    assert sum(pod.milli for pod in arrivals([Pod(Shape(1, 1, 1000), 1)] * 50, 7000, 1)) == 7000


def test_what_finds_no_room_is_dropped_and_counted() -> None:
    result = simulate(
        nodes := Nodes([("a", 1000, 9, 2, "A")]), POLICIES["bestfit"](nodes, [], 1), [Pod(Shape(1000, 1, 1000), 1)] * 3
    )
    assert result["unallocated_percent"]["100"] == 50
    assert result["dropped_percent"]["130"] == pytest.approx(200 / 3)


def test_pods_leave_at_the_end_of_their_lives() -> None:
    order = [Pod(Shape(1, 1, 1000), 1, lifetime=15.0)] * 4
    result = simulate(nodes := Nodes([("a", 1000, 9, 2, "A")]), POLICIES["bestfit"](nodes, [], 1), order, spacing=10.0)
    assert result["dropped_percent"]["130"] == 0


def test_a_cluster_can_be_changed() -> None:
    assert [row[1] for row in changed(ROWS, ["cpu=0.5", "only=A"])] == [8000, 48_000]
    assert [row[0] for row in changed(ROWS, ["without=A"])] == ["n1", "n4"]


@pytest.mark.parametrize("change", ["cpu=0", "cpu=x", "only=C", "without=Z", "twice"])
def test_a_change_that_means_nothing_is_refused(change: str) -> None:
    with pytest.raises(BadInput, match=change):
        changed(ROWS, [change])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,1,1,1", "too short"),
        ("a,-5,1,1,500", ":2: cpu_milli is '-5'"),
        ("a,1,1,2,500", "no request"),
        ("a,1,1,1,0", "no request"),
        ("a,1,nan,1,500", "memory_mib"),
        ("a,1,1,0,0", "no pod in it asks for a GPU"),
    ],
)
def test_broken_pods_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(f"name,cpu_milli,memory_mib,num_gpu,gpu_milli\n{text}\n")
    with pytest.raises(BadInput, match=words):
        read_pods(path)


@pytest.mark.parametrize(
    ("text", "words"), [("", "no node"), ("a,1,1,9,X\n", "at most 8"), ("a,1,1,1,X\na,1,1,1,X\n", "same name")]
)
def test_broken_nodes_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text(f"sn,cpu_milli,memory_mib,gpu,model\n{text}")
    with pytest.raises(BadInput, match=words):
        read_nodes(path)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the public traces are not beside the project")
def test_the_production_rule_wastes_less_than_the_published_best() -> None:
    nodes = Nodes(read_nodes(SHARED / "openb_node_list_gpu_node.csv"))
    known = read_pods(SHARED / "openb_pod_list_default.csv")
    result = simulate(nodes, POLICIES["muster"](nodes, known, 42), arrivals(known, 1.3 * nodes.capacity, 42))
    assert result["unallocated_percent"]["100"] < 4.3
