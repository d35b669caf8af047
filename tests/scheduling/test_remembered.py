"""What plans remember from each other changes their price, never their answer: a plan over an index with a history equals
the first plan over a cold one, whatever happened before."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from msgspec.structs import replace

from controller.records import Record
from controller.scheduling.index import ClusterIndex, build
from controller.scheduling.layers import LARGE, Layers
from controller.scheduling.planner import plan
from muster.states import JobPhase, NodePhase
from tests.makers import NOW
from tests.scheduling.cluster import Cluster, gang, queue, racks

LAYOUT = {
    "b0/r0": {"n0": 8, "n1": 8, "n2": 4},
    "b0/r1": {"n3": 8, "n4": 8},
    "b1/r2": {"n5": 8, "n6": 2, "n7": 8},
    "": {"n8": 8},
}
QUEUES = (queue("default", quota={"h100": 48}), queue("other", quota={"h100": 8}, weight=2))

gangs = st.fixed_dictionaries(
    {
        "pods": st.sampled_from([1, 1, 1, 2, 3, 6]),
        "per_pod": st.sampled_from([0, 1, 2, 4, 8]),
        "required": st.sampled_from([None, None, "rack", "block"]),
        "max_per_node": st.sampled_from([1, 1, 4]),
    }
)
specs = st.fixed_dictionaries(
    {
        "priorityClass": st.sampled_from(["low", "normal", "normal", "high"]),
        "queue": st.sampled_from(["default", "default", "other"]),
    },
    optional={
        "timeLimit": st.sampled_from(["1h", "10m"]),
        "minWorkers": st.just(1),
        "nodes": st.just({"exclude": ["n0"]}),
        "cpu": st.sampled_from(["1", "200"]),
    },
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), gangs, specs),
        st.tuples(st.just("submit"), gangs, specs),
        st.tuples(st.just("commit"), st.integers(0, 5), st.none()),
        st.tuples(st.just("end"), st.integers(0, 5), st.none()),
        st.tuples(st.just("node"), st.integers(0, 8), st.sampled_from(["cordon", "lose", "back", "shrink"])),
    ),
    min_size=4,
    max_size=24,
)


def cold(index: ClusterIndex) -> ClusterIndex:
    records: list[Record] = [
        *index.nodes.values(),
        *index.queues.values(),
        *index.jobs.values(),
        *index.attempts.values(),
        *(worker for workers in index.workers.values() for worker in workers.values()),
    ]
    return build(records, revision=index.revision, levels=index.level_names)


def happen(cluster: Cluster, number: int, step: tuple[str, Any, Any]) -> None:
    match step:
        case ("submit", shape, spec):
            wish = {**shape, "spec": spec}
            cluster.submit(gang(f"j{number}", **wish))
        case ("commit", count, _):
            for group in plan(cluster.index, NOW).groups[: count + 1]:
                cluster.commit(group.start)
        case ("end", place, _):
            running = sorted(crew.request.name for crew in cluster.index.crews.values())
            if running:
                cluster.end(running[place % len(running)], JobPhase.SUCCEEDED)
        case ("node", place, what):
            node = cluster.index.nodes[f"n{place}"]
            after = {
                "cordon": replace(node, cordoned=True),
                "lose": replace(node, phase=NodePhase.LOST),
                "back": replace(node, cordoned=False, phase=NodePhase.READY),
                "shrink": replace(node, devices=node.devices[1:] or node.devices),
            }[what]
            cluster.put(after)


@settings(max_examples=40, deadline=None)
@given(steps, st.booleans())
def test_a_plan_with_a_history_equals_the_first_plan_over_a_cold_index(steps: list[Any], quotas: bool) -> None:
    cluster = Cluster(racks(LAYOUT), *(QUEUES if quotas else ()))
    for number, step in enumerate(steps):
        happen(cluster, number, step)
        assert plan(cluster.index, NOW) == plan(cold(cluster.index), NOW)


def test_a_plan_over_an_older_index_is_not_disturbed_by_newer_ones() -> None:
    cluster = Cluster(racks(LAYOUT))
    cluster.submit(gang("a", 4, 8), gang("b", 1, 8))
    before = cluster.index
    first = plan(before, NOW)
    cluster.settle()
    assert plan(cluster.index, NOW).groups == ()
    assert plan(before, NOW) == first


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.booleans()), max_size=60))
def test_versions_of_a_table_are_tables_of_their_own(writes: list[tuple[int, bool, bool]]) -> None:
    table, model = Layers[int, int]({n: n for n in range(8)}), {n: n for n in range(8)}
    versions = [(table, dict(model))]
    for number, (key, put, branch) in enumerate(writes):
        if branch:
            versions.append((table, dict(model)))
            table = table.settled().branch()
        elif table is versions[0][0]:
            table = table.branch()
        if put:
            table.put(key, number)
            model[key] = number
        else:
            assert table.drop(key) == model.pop(key, None)
        assert (table, len(table), set(table)) == (model, len(model), set(model))
        assert (sorted(table.values()), table.get(key, -1)) == (sorted(model.values()), model.get(key, -1))
    assert all(table == model for table, model in versions[:1])


def test_a_version_with_much_of_its_own_becomes_a_table() -> None:
    table = Layers({-1: 0}).branch()
    for key in range(LARGE + 2):
        table.put(key, key)
    assert table.settled() == table
    assert table.settled() is not table
