"""Time-sharing by expected remaining work: what is expected, and who is served first."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.scheduling.discipline.remaining import (
    LEVELS,
    Work,
    by_attained,
    by_remaining,
    remaining,
    worth_moving,
)


def work(
    job: str, program: str = "p", devices: int = 1, attained: float = 0.0, running: bool = False, submitted: float = 0.0
) -> Work:
    return Work(job=job, program=program, devices=devices, attained=attained, running=running, submitted=submitted)


def order(works: list[Work], sizes: dict[str, list[float]] | None = None) -> list[str]:
    return [served.job for served in by_remaining(works, sizes or {})]


@pytest.mark.parametrize(
    ("attained", "sizes", "most", "expected"),
    [
        (0, [100, 200], 0, 150),  # the mean of what is known
        (100, [100, 200], 100, 100),  # a size that has been reached is none that is ahead
        (150, [100, 200], 150, 50),
        (200, [100, 200], 200, 20),  # longer than all before it: a tenth of the longest
        (300, [100, 200], 300, 120),  # and the longer it lasts the more is expected
        (0, [], 0, 0),
        (10, [], 500, 990),  # no run has ended, but one has attained 500 already
        (500, [], 500, 500),
        (600, [], 500, 600),  # `most` is never less than what the run itself has attained
    ],
)
def test_what_a_run_is_expected_to_need_yet(attained: float, sizes: list[float], most: float, expected: float) -> None:
    assert remaining(attained, sizes, most) == pytest.approx(expected)


@given(st.floats(0, 1e6), st.lists(st.floats(0, 1e6), max_size=20).map(sorted), st.floats(0, 1e6))
def test_expected_work_is_never_negative_and_always_finite(attained: float, sizes: list[float], most: float) -> None:
    left = remaining(attained, sizes, most)
    assert left >= 0
    assert math.isfinite(left)


def test_the_program_known_to_be_short_goes_first() -> None:
    assert order([work("a", "long"), work("b", "short")], {"long": [5000.0], "short": [50.0]}) == ["b", "a"]


def test_a_long_newcomer_is_known_by_the_run_of_its_program_that_is_still_going() -> None:
    going = work("going", "long", attained=9000, running=True)
    assert order([going, work("next", "long"), work("other", "new")])[:2] == ["other", "going"]


def test_a_running_job_is_not_displaced_by_one_of_its_own_size() -> None:
    works = [work("waits", submitted=0), work("runs", attained=10, running=True, submitted=5)]
    assert order(works, {"p": [1000.0]}) == ["runs", "waits"]


def test_a_running_job_is_displaced_by_a_much_shorter_one() -> None:
    works = [work("runs", "long", running=True), work("waits", "short")]
    assert order(works, {"long": [100_000.0], "short": [100.0]}) == ["waits", "runs"]


def test_equal_jobs_are_served_by_submission_and_then_by_name() -> None:
    assert order([work("c", submitted=2), work("b", submitted=1), work("a", submitted=1)]) == ["a", "b", "c"]


def test_jobs_without_a_program_learn_nothing_from_each_other() -> None:
    old = work("old", "", attained=9000, running=True)
    new = work("new", "")
    assert order([old, new], {"": [5.0]}) == ["new", "old"]


def test_the_expected_remaining_work_is_told_with_the_order() -> None:
    served = by_remaining([work("a", attained=40, running=True)], {"p": [100.0]})
    assert [(entry.job, entry.remaining) for entry in served] == [("a", 60)]


@given(
    st.lists(st.tuples(st.sampled_from("pqr"), st.floats(0, 1e5), st.booleans(), st.integers(0, 9)), max_size=12),
    st.randoms(),
)
def test_the_order_is_the_same_in_whatever_order_the_jobs_come(
    rows: list[tuple[str, float, bool, int]], random
) -> None:
    works = [
        work(f"job-{place}", program, 1, attained, running, float(submitted))
        for place, (program, attained, running, submitted) in enumerate(rows)
    ]
    shuffled = list(works)
    random.shuffle(shuffled)
    sizes = {"p": [10.0, 500.0], "q": [3.0]}
    assert by_remaining(works, sizes) == by_remaining(shuffled, sizes)
    assert by_attained(works) == by_attained(shuffled)
    assert sorted(entry.job for entry in by_remaining(works, sizes)) == sorted(entry.job for entry in works)


def test_without_names_the_lowest_level_goes_first_and_in_it_who_has_most() -> None:
    first, second = LEVELS
    works = [
        work("third", attained=second),
        work("second", attained=first),
        work("new"),
        work("near", attained=first - 1),
    ]
    assert [entry.job for entry in by_attained(works)] == ["near", "new", "second", "third"]


@pytest.mark.parametrize(
    ("devices", "left", "since", "moves"),
    [(4, 2401, 300, True), (4, 2400, 300, False), (4, 9999, 299, False), (5, 99999, 9999, False), (1, 601, 300, True)],
)
def test_only_small_settled_lasting_jobs_are_moved(devices: int, left: float, since: float, moves: bool) -> None:
    assert worth_moving(devices, left, since) is moves
