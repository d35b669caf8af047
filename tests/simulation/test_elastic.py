"""The division of a pool among elastic jobs."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.scheduling.discipline.elastic import Claim, divide, worths


def claim(
    job: str, requested: int = 1, remaining: float = 3600.0, current: int = 0, speed: tuple[float, ...] | None = None
) -> Claim:
    linear = tuple(count / requested for count in range(2 * requested + 1))
    return Claim(
        job=job, requested=requested, remaining=remaining, current=current, speed=linear if speed is None else speed
    )


claims = st.lists(
    st.builds(
        claim,
        requested=st.integers(1, 3),
        remaining=st.floats(0, 1e5),
        current=st.integers(0, 3),
        job=st.uuids().map(str),
    ),
    max_size=4,
)


def worth(parts: dict[str, int], wanted: list[Claim], devices: int) -> float:
    return sum(worths(one, devices)[parts[one.job]] for one in wanted)


@settings(max_examples=60)
@given(claims, st.integers(0, 7))
def test_no_other_division_is_worth_more(wanted: list[Claim], devices: int) -> None:
    parts = divide(wanted, devices)
    assert sum(parts.values()) <= devices
    ranges = [range(min(devices, len(one.speed) - 1) + 1) for one in wanted]
    best = max(
        (
            worth(dict(zip([one.job for one in wanted], counts, strict=True)), wanted, devices)
            for counts in product(*ranges)
            if sum(counts) <= devices
        ),
        default=0.0,
    )
    assert worth(parts, wanted, devices) == pytest.approx(best)


@given(claims, st.randoms())
def test_the_division_does_not_depend_on_the_order_of_the_claims(wanted: list[Claim], random) -> None:
    shuffled = list(wanted)
    random.shuffle(shuffled)
    assert divide(wanted, 8) == divide(shuffled, 8)


def test_a_lone_job_that_scales_gets_all_it_can_use() -> None:
    assert divide([claim("a", requested=2)], 8) == {"a": 4}


def test_a_job_that_does_not_scale_gets_no_more_than_helps() -> None:
    assert divide([claim("a", requested=2, speed=(0, 0.6, 1.0, 1.0, 0.9))], 8) == {"a": 2}


def test_a_size_that_was_never_profiled_is_never_given() -> None:
    assert divide([claim("a", requested=2, speed=(0, 0, 1.0, 0, 0))], 1) == {"a": 0}


def test_sizes_rest_when_a_change_gains_less_than_it_costs() -> None:
    assert divide([claim("a", requested=2, remaining=240, current=3)], 4) == {"a": 3}


def test_a_job_of_which_nothing_is_known_is_started() -> None:
    assert divide([claim("new", remaining=0.0)], 1) == {"new": 1}


def test_the_short_job_is_served_before_the_long_one() -> None:
    assert divide([claim("long", remaining=1e6, speed=(0, 1.0)), claim("short", remaining=600, speed=(0, 1.0))], 1) == {
        "long": 0,
        "short": 1,
    }
