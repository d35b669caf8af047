"""What must hold of quotas, preemption and mixed gangs, on small random clusters."""

from collections import Counter
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from msgspec.structs import replace

from controller.records import JobRecord
from controller.scheduling.book import Book
from controller.scheduling.index import build
from controller.scheduling.planner import plan
from controller.simulation.world import Habits, World, queue_of
from tests.makers import NOW
from tests.scheduling.cluster import LEVELS, gang, queue, racks

KIND = "h100"
QUEUES = ("a", "b", "c")

submissions = st.lists(
    st.builds(
        dict,
        queue=st.sampled_from(QUEUES),
        pods=st.integers(1, 3),
        per_pod=st.integers(1, 4),
        priority=st.sampled_from([0, 0, 10]),
        required=st.sampled_from([None, "rack"]),
    ),
    min_size=1,
    max_size=6,
)
LAYOUT = {"b0/r0": {"n0": 4, "n1": 2}, "b0/r1": {"n2": 4, "n3": 3}}


def _world(quotas: tuple[int, ...]) -> World:
    queues = [queue_of(name, quota={KIND: quota}) for name, quota in zip(QUEUES, quotas, strict=True)]
    return World([*racks(LAYOUT), *queues], LEVELS)


def _submit(world: World, number: int, wish: dict[str, Any]) -> None:
    job = gang(
        f"j{number}",
        wish["pods"],
        wish["per_pod"],
        required=wish["required"],
        spec={"queue": wish["queue"], "priority": wish["priority"]},
    )
    world.submit(job, Habits())


@settings(max_examples=15, deadline=None)
@given(submissions, st.tuples(*(st.integers(0, 8) for _ in QUEUES)))
def test_the_quota_of_all_is_never_exceeded_and_every_plan_settles(
    wishes: list[dict[str, Any]], quotas: tuple[int, ...]
) -> None:
    world = _world(quotas)
    for number, wish in enumerate(wishes):
        _submit(world, number, wish)
        world.settle()  # raises where it does not come to rest: no ping-pong
        world.check()
        world.index.check()
        used = sum(world.charged(name) for name in world.jobs)
        assert used <= sum(quotas)
        for name in world.jobs:
            held = [worker.node for worker in world.workers(name)]
            if held and wishes[int(name[1:])]["required"]:
                assert len({world.index.nodes[node].labels["muster.dev/rack"] for node in held}) == 1


@settings(max_examples=15, deadline=None)
@given(submissions, st.tuples(*(st.integers(0, 8) for _ in QUEUES)))
def test_a_settled_world_stays_as_it_is(wishes: list[dict[str, Any]], quotas: tuple[int, ...]) -> None:
    world = _world(quotas)
    for number, wish in enumerate(wishes):
        _submit(world, number, wish)
    world.settle()
    evicted, revision = list(world.tally.evicted), world.index.revision
    world.now += 3600
    world.settle()
    assert (world.tally.evicted, world.index.revision) == (evicted, revision)


@settings(max_examples=15, deadline=None)
@given(submissions, st.randoms(use_true_random=False))
def test_queues_and_victims_do_not_depend_on_the_order_of_the_input(wishes: list[dict[str, Any]], random: Any) -> None:
    world = _world((4, 4, 4))
    for number, wish in enumerate(wishes[:-1]):
        _submit(world, number, wish)
    world.settle()
    _submit(world, len(wishes), {**wishes[-1], "priority": 20})
    index = world.index
    living = [worker for workers in index.workers.values() for worker in workers.values()]
    records = [*index.nodes.values(), *index.queues.values(), *index.jobs.values(), *index.attempts.values(), *living]
    shuffled = random.sample(records, len(records))
    assert plan(build(records, levels=LEVELS), NOW) == plan(build(shuffled, levels=LEVELS), NOW)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=3),
)
def test_a_mixed_gang_that_fits_somehow_is_never_refused(rooms: list[int], roles: list[tuple[int, int]]) -> None:
    nodes = racks({"b0/r0": {f"n{number}": room for number, room in enumerate(rooms)}})
    spec = {
        "roles": [
            {"name": f"role{number}", "workers": workers, "accelerators": [{"type": KIND, "count": count}]}
            for number, (workers, count) in enumerate(roles)
        ]
    }
    decided = plan(build([*nodes, _mixed(spec)], levels=LEVELS), NOW)
    needs = [count for workers, count in roles for _ in range(workers)]
    assert bool(decided.groups) == _packs(tuple(rooms), tuple(sorted(needs, reverse=True)))
    for group in decided.groups:
        used: Counter[str] = Counter()
        for worker in group.start.workers:
            used[worker.node] += len(worker.devices)
        assert all(used[f"n{number}"] <= room for number, room in enumerate(rooms))
        assert sorted((len(w.devices) for w in group.start.workers), reverse=True) == sorted(needs, reverse=True)


def _mixed(spec: dict[str, Any]) -> JobRecord:
    return replace(gang("mixed"), spec={**gang("mixed").spec, **spec})


def _packs(rooms: tuple[int, ...], needs: tuple[int, ...]) -> bool:
    """By trying everything."""
    if not needs:
        return True
    return any(
        room >= needs[0] and _packs((*rooms[:place], room - needs[0], *rooms[place + 1 :]), needs[1:])
        for place, room in enumerate(rooms)
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(QUEUES), st.integers(1, 5), st.booleans()), max_size=12))
def test_the_books_balance_and_what_is_not_lent_is_kept(moves: list[tuple[str, int, bool]]) -> None:
    queues = {
        "a": queue("a", quota={KIND: 6}, lendLimit={KIND: 2}),
        "b": queue("b", quota={KIND: 4}),
        "c": queue("c", quota={KIND: 2}, borrowLimit={KIND: 1}),
    }
    book, held = Book(queues), Counter[str]()
    for name, amount, gives in moves:
        if gives and held[name] >= amount:
            book.add(name, {KIND: amount}, -1)
            held[name] -= amount
        elif not gives and book.short(name, {KIND: amount}) is None:
            book.add(name, {KIND: amount})
            held[name] += amount
        assert {name: book.used(name, KIND) for name in QUEUES} == {name: held[name] for name in QUEUES}
        assert held["b"] + held["c"] <= 4 + 2 + 2, "a lends two at most"
        assert held["c"] <= 3
        assert sum(held.values()) <= 12


def test_a_circle_of_queues_does_no_harm() -> None:
    circle = {name: queue(name, parent=parent, quota={KIND: 2}) for name, parent in (("a", "b"), ("b", "a"))}
    book = Book(circle)
    assert book.short("a", {KIND: 4}) is None
    assert book.short("a", {KIND: 5}) is not None


def test_shares_are_by_weight() -> None:
    queues = {
        "a": queue("a", quota={KIND: 2}, weight=2),
        "b": queue("b", quota={KIND: 2}),
        "c": queue("c", quota={KIND: 8}),
    }
    book = Book(queues)
    for name in ("a", "b"):
        book.add(name, {KIND: 6})
    assert book.share("a") * 2 == book.share("b") > 0


def test_a_child_borrows_inside_its_branch_before_the_branch_borrows() -> None:
    queues = {
        "team": queue("team", quota={}),
        "a": queue("a", parent="team", quota={KIND: 2}),
        "b": queue("b", parent="team", quota={KIND: 2}),
        "other": queue("other", quota={KIND: 4}),
    }
    book = Book(queues)
    book.add("a", {KIND: 4})
    assert book.borrowed("a", KIND) == 2
    assert book.borrowed("team", KIND) == 0
    assert book.share("a", beside="other") == 0, "its branch borrows nothing from the other one"
    assert book.share("a", beside="b") > 0
