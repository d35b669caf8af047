"""The autoscaler, and the service that it drives."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.common import BadInput
from benchmarks.serving import SLOTS, START, Request, fixed, planned, proportional, read, simulate
from controller.scheduling.discipline.autoscale import Sample, Scaling, replicas, wanted

SCALING = Scaling(target=10.0, least=1, most=50, start=60.0, window=300.0)


@pytest.mark.parametrize(
    ("loads", "count"),
    [
        ([0], 1),  # never less than the least
        ([100], 10),
        ([101], 11),
        ([100, 100, 100], 10),  # steady: nothing on top
        ([40, 100], 13),  # growing: as much again as it has grown beyond the mean of a start
        ([100, 40], 4),  # shrinking is no growth
        ([1e9], 50),  # never more than the most
    ],
)
def test_replicas_wanted_for_a_load(loads: list[float], count: int) -> None:
    assert wanted(SCALING, [Sample(10.0 * place, load) for place, load in enumerate(loads)]) == count


def test_what_was_long_ago_is_no_growth() -> None:
    assert wanted(SCALING, [Sample(0, 0), Sample(61, 100)]) == 10


@pytest.mark.parametrize("load", [float("nan"), float("inf"), -1.0])
def test_a_load_that_is_no_load_is_refused(load: float) -> None:
    with pytest.raises(ValueError, match="is no load"):
        wanted(SCALING, [Sample(0, load)])


def test_replicas_go_down_only_after_the_window() -> None:
    assert replicas(SCALING, [Sample(0, 0, 9), Sample(300, 0, 1)]) == 9
    assert replicas(SCALING, [Sample(0, 0, 9), Sample(301, 0, 1)]) == 1


def test_replicas_go_up_at_once() -> None:
    assert replicas(SCALING, [Sample(0, 0, 1), Sample(5, 0, 9)]) == 9


@given(
    st.lists(st.tuples(st.floats(0, 500), st.floats(0.1, 40)), min_size=1, max_size=60),
    st.sampled_from([planned, proportional, lambda: fixed(2)]),
)
def test_every_request_is_served_once_and_none_before_it_came(rows: list[tuple[float, float]], policy) -> None:
    requests = [Request(at, seconds) for at, seconds in sorted(rows)]
    outcome = simulate(requests, policy(), 1)
    assert len(outcome.waits) == len(requests)
    assert min(outcome.waits) >= 0


def test_a_request_waits_for_a_slot() -> None:
    requests = [Request(0.0, 10.0)] * SLOTS + [Request(1.0, 10.0)]
    assert simulate(requests, fixed(1), 1).waits == (*[0.0] * SLOTS, 9.0)


def test_a_new_replica_serves_after_its_start() -> None:
    requests = [Request(0.0, 1000.0)] * SLOTS + [Request(1.0, 10.0)]
    assert simulate(requests, fixed(2), 1).waits[-1] == 5.0 + START - 1.0


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("now,1,1", "TIMESTAMP is 'now'"),
        ("2023-11-16 18:17:03,x,1", "ContextTokens"),
        ("2023-11-16 18:17:03", "too short"),
    ],
)
def test_broken_requests_are_named(tmp_path: Path, row: str, words: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{row}\n")
    with pytest.raises(BadInput, match=words):
        read(path)
