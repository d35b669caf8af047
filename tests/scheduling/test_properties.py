"""What must hold of every plan, on small clusters of every kind."""

from collections import Counter
from collections.abc import Iterable
from itertools import combinations_with_replacement
from typing import Any

import hypothesis.strategies as st
from hypothesis import assume, given, settings
from msgspec.structs import replace

from controller.records import JobRecord, NodeRecord
from controller.scheduling.devices import choose_devices, fewest
from controller.scheduling.index import ClusterIndex, build
from controller.scheduling.planner import fits_empty, plan
from controller.scheduling.types import Plan
from muster.protocol import Device
from tests.makers import NOW, make_attempt, make_node, make_worker
from tests.scheduling.cluster import LEVELS, Cluster, gang, path_of

PLACES = [("b0", "r0"), ("b0", "r1"), ("b1", "r2"), ("b1", None), (None, None), (None, "r3")]


def _node(number: int, place: tuple[str | None, str | None], devices: int, cpu: int, cordoned: bool) -> NodeRecord:
    labels = {f"muster.dev/{level}": name for level, name in zip(LEVELS, place, strict=True) if name}
    kind = "h100" if number % 5 else "h200"
    groups = tuple(Device(index=i, type=kind, group=i // 2) for i in range(devices))
    node = make_node(f"n{number}", 0, labels=labels, cpu_milli=cpu, memory=2**33, cordoned=cordoned)
    return replace(node, devices=groups)


nodes_of = st.lists(
    st.tuples(
        st.sampled_from(PLACES),
        st.integers(0, 4),
        st.sampled_from([1000, 2000, 4000]),
        st.sampled_from([False] * 4 + [True]),
    ),
    min_size=1,
    max_size=7,
).map(lambda rows: [_node(number, *row) for number, row in enumerate(rows)])

gangs_of = st.builds(
    dict,
    pods=st.integers(1, 5),
    per_pod=st.integers(0, 3),
    max_per_node=st.sampled_from([1, 2, 1000]),
    required=st.sampled_from([None, None, "block", "rack", "node"]),
    wanted=st.sampled_from([None, "rack"]),
    preferred=st.sampled_from([(), ("n0", "n1")]),
    excluded=st.sampled_from([(), ("n1",)]),
)


def jobs_of(wishes: Iterable[dict[str, Any]]) -> list[JobRecord]:
    return [
        gang(f"j{i}", **{k: v for k, v in wish.items() if k not in ("preferred", "excluded")}, queued_at=NOW + i,
             preferred=wish["preferred"], excluded=wish["excluded"])
        for i, wish in enumerate(wishes)
    ]  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(nodes_of, st.lists(gangs_of, max_size=6))
def test_no_plan_breaks_a_capacity_a_gang_or_a_required_level(
    nodes: list[NodeRecord], wishes: list[dict[str, Any]]
) -> None:
    index = build([*nodes, *jobs_of(wishes)], levels=LEVELS)
    decided = plan(index, NOW)
    everyone = {*(group.start.job_uid for group in decided.groups), *(wait.job_uid for wait in decided.waits)}
    assert everyone == index.gangs.keys(), "each gang is started or told why not"
    assert len(decided.groups) + len(decided.waits) == len(index.gangs)
    _nothing_is_given_twice(index, decided)
    for group in decided.groups:
        request = index.gangs[group.start.job_uid]
        held = [worker.node for worker in group.start.workers]
        kind, workers = request.options[0]
        assert len(held) == workers, "all or none"
        assert max(Counter(held).values()) <= request.max_per_node
        assert not set(held) & set(request.excluded)
        assert all(not index.nodes[name].cordoned for name in held)
        assert all(len(worker.devices) == (kind.count if kind else 0) for worker in group.start.workers)
        assert _shares(index, held, request.required_level)
        assert held == sorted(held, key=index.fabric.positions.__getitem__), "ranks follow the fabric"
        assert set(group.reads) == set(held)


def _nothing_is_given_twice(index: ClusterIndex, decided: Plan) -> None:
    devices: Counter[tuple[str, int]] = Counter()
    cpu: Counter[str] = Counter()
    for group in decided.groups:
        for worker in group.start.workers:
            devices.update((worker.node, device) for device in worker.devices)
            cpu[worker.node] += index.gangs[group.start.job_uid].cpu_milli
    assert all(count == 1 for count in devices.values())
    assert all(used <= index.nodes[name].cpu_milli for name, used in cpu.items())
    for name, device in devices:
        assert device in {known.index for known in index.nodes[name].devices}


def _shares(index: ClusterIndex, held: list[str], level: str | None) -> bool:
    if level is None:
        return True
    if level == "node":
        return len(set(held)) == 1
    depth = LEVELS.index(level) + 1
    paths = {tuple(path_of(index.nodes[name]).split("/")[:depth]) for name in held}
    return len(paths) == 1 and paths.pop()[-1] != "-"


@settings(max_examples=200, deadline=None)
@given(nodes_of, gangs_of, st.lists(st.integers(0, 3), max_size=7))
def test_a_gang_that_fits_somehow_is_never_refused(
    nodes: list[NodeRecord], wish: dict[str, Any], held: list[int]
) -> None:
    attempt = make_attempt(gang("old"))
    busy = [
        make_worker(attempt, number, node.name, devices=tuple(range(min(count, len(node.devices)))), cpu_milli=500)
        for number, (node, count) in enumerate(zip(nodes, held, strict=False))
        if count
    ]
    index = build([*nodes, *busy, *jobs_of([wish])], levels=LEVELS)
    decided = plan(index, NOW)
    assert bool(decided.groups) == _fits_by_trying_everything(index, wish)
    if decided.groups:
        assert fits_empty(index, index.gangs["job-j0"]) is None


def _fits_by_trying_everything(index: ClusterIndex, wish: dict[str, Any]) -> bool:
    room = {}
    for name, node in index.nodes.items():
        if node.cordoned or name in wish["excluded"]:
            continue
        held = index.workers.get(name, {}).values()
        devices = sum(d.type == "h100" for d in node.devices) - sum(
            node.devices[i].type == "h100" for worker in held for i in worker.devices
        )
        cpu = node.cpu_milli - sum(worker.cpu_milli for worker in held)
        fits = min(cpu // 1000, wish["max_per_node"])
        room[name] = min(fits, devices // wish["per_pod"]) if wish["per_pod"] else fits
    return any(
        all(count <= room[name] for name, count in Counter(chosen).items())
        and _shares(index, list(chosen), wish["required"])
        for chosen in combinations_with_replacement(sorted(room), wish["pods"])
    )


@settings(max_examples=60, deadline=None)
@given(nodes_of, st.lists(gangs_of, max_size=6), st.randoms(use_true_random=False))
def test_the_same_input_in_any_order_gives_the_same_plan(
    nodes: list[NodeRecord], wishes: list[dict[str, Any]], random: Any
) -> None:
    records = [*nodes, *jobs_of(wishes)]
    shuffled = random.sample(records, len(records))
    assert plan(build(records, levels=LEVELS), NOW) == plan(build(shuffled, levels=LEVELS), NOW)


@settings(max_examples=40, deadline=None)
@given(nodes_of, st.lists(gangs_of, min_size=1, max_size=6))
def test_a_committed_plan_settles_and_the_index_stays_true(
    nodes: list[NodeRecord], wishes: list[dict[str, Any]]
) -> None:
    cluster = Cluster(nodes, *jobs_of(wishes))
    last = cluster.settle()
    assert {wait.job_uid for wait in last.waits} == {request.job_uid for request in cluster.index.requests()}
    for job in list(cluster.placed()):
        cluster.end(job)
    assert cluster.index.free.same(build(nodes, levels=LEVELS).free), "everything is given back"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(1, 40))
def test_what_is_taken_is_enough_from_as_few_as_possible(rooms: list[int], need: int) -> None:
    assume(sum(rooms) >= need)
    rooms.sort()
    taken = fewest(rooms, need)
    assert sum(taken) == need
    assert all(0 <= part <= room for part, room in zip(taken, rooms, strict=True))
    used = sum(part > 0 for part in taken)
    assert sum(rooms[len(rooms) - used + 1 :]) < need, "one fewer would not do"
    assert sum(0 < part < room for part, room in zip(taken, rooms, strict=True)) <= 1, "at most one is left broken"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=10), st.integers(1, 10))
def test_devices_come_from_one_group_wherever_one_has_room(groups: list[int], count: int) -> None:
    assume(count <= len(groups))
    chosen = choose_devices((Device(index=i, type="h100", group=group) for i, group in enumerate(groups)), count)
    assert len(set(chosen)) == count
    sizes = Counter(groups)
    if max(sizes.values()) >= count:
        used = {groups[index] for index in chosen}
        assert len(used) == 1
        assert sizes[used.pop()] == min(size for size in sizes.values() if size >= count), "the tightest of them"
