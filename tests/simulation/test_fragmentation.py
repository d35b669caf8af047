"""What the shapes seen so far teach, and where a request lies by it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.scheduling.discipline.fragmentation import Lessons, Shape, due, learn, place, strand

ONE = Shape(8000, 1, 1000)
HALF = Shape(4000, 1, 500)
BARE = Shape(16000, 0, 0)


def put(
    lessons: Lessons, shape: Shape, cpu: list[int], free: list[list[int]], kinds: list[str] | None = None
) -> tuple[int, int]:
    """The node of least cost, and the device there."""
    rests = np.array(free)
    fresh = ((rests == 1000) | (rests < 0)).all(axis=1)
    cost, device = place(lessons, shape, np.array(cpu), rests, fresh, kinds or ["x"] * len(cpu))
    best = int(cost.argmin())
    return best, int(device[best])


def test_devices_without_the_cpu_to_feed_them_are_stranded() -> None:
    lessons = learn({ONE: 10}, {"x": 8000})
    assert strand(lessons, np.array([16000, 8000, 0]), np.array([2000, 2000, 2000])).tolist() == [0, 1000, 2000]


def test_shapes_count_by_how_much_they_ask() -> None:
    lessons = learn({ONE: 1, Shape(1000, 1, 1000): 3}, {})
    assert sorted(lessons.weights.tolist()) == [0.25, 0.75]


def test_rare_shapes_and_shapes_without_devices_teach_no_ratio() -> None:
    lessons = learn({ONE: 96, BARE: 3, Shape(1, 8, 1000): 1}, {})
    assert lessons.ratios.tolist() == [1000 / 8000]


def test_a_rest_that_the_usual_sizes_fill_is_no_hole() -> None:
    holes = learn({HALF: 5}, {}).holes
    assert (holes[0], holes[499], holes[500], holes[600], holes[1000]) == (0, 499, 0, 100, 0)


@given(st.dictionaries(st.integers(1, 999), st.integers(1, 50), max_size=6))
def test_a_hole_wastes_no_more_than_itself(sizes: dict[int, int]) -> None:
    holes = learn({Shape(1, 1, size): count for size, count in sizes.items()}, {}).holes
    assert (holes >= 0).all()
    assert (holes <= np.arange(1001) + 1e-6).all()


def test_a_fraction_takes_the_device_that_it_fills() -> None:
    lessons = learn({HALF: 5, Shape(4000, 1, 300): 5}, {})
    assert put(lessons, HALF, [90_000], [[1000, 700, 500, 900]]) == (0, 2)


def test_a_request_prefers_the_node_that_is_in_use() -> None:
    assert put(learn({ONE: 5}, {}), ONE, [64_000, 64_000], [[1000] * 8, [1000] * 2 + [0] * 6])[0] == 1


def test_a_request_without_devices_goes_where_no_device_needs_the_cpu() -> None:
    lessons = learn({ONE: 5}, {})
    assert put(lessons, BARE, [64_000, 64_000], [[1000] * 8, [0] * 8])[0] == 1


def test_who_takes_any_kind_leaves_the_wanted_one_to_those_who_insist() -> None:
    insists = Shape(8000, 1, 1000, ("a",))
    lessons = learn({ONE: 10, insists: 10}, {"a": 2000, "b": 20_000})
    assert lessons.pressure["a"] > lessons.pressure["b"] == 0
    assert put(lessons, ONE, [64_000] * 2, [[1000] * 8] * 2, ["a", "b"])[0] == 1


def test_pressure_has_a_limit() -> None:
    assert learn({Shape(1, 1, 1000, ("a",)): 99}, {"a": 0, "b": 10**6}).pressure["a"] == 5.0


def test_equal_nodes_cost_the_same_to_the_last_digit_in_any_company() -> None:
    lessons = learn({ONE: 3, HALF: 7, Shape(3100, 1, 330): 5, Shape(11_900, 2, 1000): 2}, {"x": 5000})
    rests = np.array([[1000, 700, 0, 330]] * 37)
    cost, _ = place(lessons, HALF, np.full(37, 31_700), rests, np.zeros(37, bool), ["x"] * 37)
    alone, _ = place(lessons, HALF, np.array([31_700]), rests[:1], np.zeros(1, bool), ["x"])
    assert set(cost.tolist()) == {alone[0]}


def test_nothing_seen_is_enough_to_place_something() -> None:
    assert put(learn({}, {}), HALF, [8000], [[1000, 400]]) == (0, 0)


@pytest.mark.parametrize(
    ("seen", "drawn"), [(0, False), (1, True), (2, False), (129, True), (399, False), (400, True), (800, True)]
)
def test_lessons_are_drawn_often_at_first(seen: int, drawn: bool) -> None:
    assert due(seen) is drawn


@given(st.permutations([(ONE, 4), (HALF, 4), (BARE, 4), (Shape(2000, 1, 250), 4)]))
def test_lessons_do_not_depend_on_the_order_in_which_shapes_were_met(rows: list[tuple[Shape, int]]) -> None:
    first, second = learn(dict(rows), {"x": 9}), learn(dict(sorted(rows)), {"x": 9})
    assert first.ratios.tolist() == second.ratios.tolist()
    assert first.holes.tolist() == pytest.approx(second.holes.tolist())
