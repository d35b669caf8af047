"""Questions that change nothing: what if, and which gangs could start."""

from typing import Any

import pytest

from controller.records import QueueRecord
from controller.scheduling.index import ClusterIndex, build
from controller.simulation.capacity import capacity
from controller.simulation.spans import History
from controller.simulation.types import Basis
from controller.simulation.whatif import Comparison, Unfit, WhatIf, compare
from tests.makers import NOW, make_node
from tests.simulation.test_forecast import runs, waits

QUEUE = QueueRecord(name="small", uid="q", spec={"quota": {"h100": 8}})


def world() -> ClusterIndex:
    """Two nodes: `a` runs on one for ten minutes, `big` waits for both, `mine` for quota."""
    labels = {"muster.dev/block": "b", "muster.dev/leaf": "l"}
    return build(
        [
            *(make_node(f"n{number}", labels=labels) for number in range(2)),
            QUEUE,
            *runs("a", "n0", timeLimit="10m"),
            waits("big", 2, timeLimit="5m"),
            waits("mine", 2, after=1, queue="small", timeLimit="5m"),
        ],
        revision=3,
    )


def ask(index: ClusterIndex, **change: Any) -> Comparison:
    before = index.check()
    found = compare(index, WhatIf(**change), NOW, History())
    assert index.check() == before
    return found


def starts(found: Comparison) -> list[str]:
    return [found.names[group.start.job_uid][1] for group in found.plan.groups]


def test_more_nodes_start_what_waits_for_room_and_the_others_are_told_beside() -> None:
    found = ask(world(), add_nodes=1, like="n1")
    assert starts(found) == ["big"]
    told = {one.name: one for one in found.jobs}
    assert told["big"].today is not None
    assert told["big"].then is not None
    assert (told["big"].then.at, told["big"].then.basis) == (NOW, Basis.NOW)
    assert (told["big"].today.at or 0) > NOW + 500
    assert told["mine"].then is not None
    assert told["mine"].then.at is None


def test_more_quota_dates_what_had_no_date() -> None:
    found = ask(world(), quota={"small": {"h100": 16}})
    told = {one.name: one for one in found.jobs}
    assert told["mine"].today is not None
    assert told["mine"].then is not None
    assert (told["mine"].today.at, told["mine"].then.basis) == (None, Basis.LIMITS)


def test_a_drained_node_sends_its_gang_back_to_the_queue() -> None:
    found = ask(world(), drain=("n0",))
    assert starts(found) == ["a"]
    assert {one.name: one.today for one in found.jobs}["a"] is None
    then = {one.name: one.then for one in found.jobs}["big"]
    assert then is not None
    assert then.at is None


def test_a_changed_job_takes_the_place_of_the_one_that_waits() -> None:
    index = world()
    smaller = waits("big", 1, timeLimit="5m")
    assert starts(ask(index, job=smaller)) == ["big"]
    larger = waits("big", 3, timeLimit="5m")
    found = ask(index, job=larger)
    assert found.why is not None
    assert "3 workers" in found.why.message
    assert index.jobs[smaller.uid].spec["workers"] == 2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"drain": ("n7",)}, "drain[0]: unknown node (found 'n7'); did you mean \"n1\"?"),
        ({"add_nodes": 2, "like": "m"}, "like: unknown node"),
        ({"add_nodes": 2}, "addNodes and like go together"),
        ({"quota": {"smal": {"h100": 1}}}, 'did you mean "small"?'),
        ({"quota": {"small": {"h100": -1}}}, "not negative"),
    ],
)
def test_what_does_not_fit_the_cluster_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(Unfit) as refused:
        ask(world(), **change)
    assert said.partition('; did you mean "n1"')[0] in str(refused.value)


def test_the_largest_gangs_of_each_kind_and_level() -> None:
    rows = {(row.accelerator, row.level): row for row in capacity(world())}
    assert [level for _, level in rows] == ["cluster", "block", "leaf", "node"]
    row = rows["h100", "leaf"]
    assert (row.free, row.total, row.domains) == (8, 16, 1)
    assert [(gang.devices, gang.workers) for gang in row.gangs] == [(1, 8), (2, 4), (4, 2), (8, 1)]
    assert rows["h100", "node"].gangs[-1].domain == "n1"
