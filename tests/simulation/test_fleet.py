"""The virtual clock, and one job on servers that fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.failures import best_ratio
from benchmarks.fleet import FirstCome, Fleet, Lemons, Server, simulate
from controller.simulation.agenda import Agenda

SMALL = Fleet(job_size=40, standbys=2, working=44, spares=4, job_minutes=5000.0, rate=1e-4)


@given(st.lists(st.floats(0, 1e6)))
def test_events_come_in_the_order_of_time_and_then_as_noted(times: list[float]) -> None:
    agenda: Agenda[int] = Agenda()
    for number, at in enumerate(times):
        agenda.note(at, number)
    taken = [(agenda.take(), agenda.now) for _ in range(len(times))]
    assert [number for number, _ in taken] == sorted(range(len(times)), key=lambda number: (times[number], number))
    assert len(agenda) == 0


@pytest.mark.parametrize("at", [4.9, float("nan"), -1.0])
def test_nothing_is_noted_for_a_time_that_has_passed(at: float) -> None:
    agenda: Agenda[str] = Agenda(5.0)
    with pytest.raises(ValueError, match="cannot be noted"):
        agenda.note(at, "late")


def test_an_empty_agenda_has_its_next_event_never() -> None:
    assert Agenda[str]().next_at == float("inf")


def test_a_fleet_that_never_fails_needs_the_work_and_one_selection() -> None:
    outcome = simulate(Fleet(rate=1e-30, job_minutes=600.0), FirstCome(), 1)
    assert (outcome.hours, outcome.failures, outcome.selections) == (603 / 60, 0, 1)


@pytest.mark.parametrize("care", [FirstCome, Lemons])
@pytest.mark.parametrize("seed", range(4))
def test_the_books_add_up(care, seed: int) -> None:
    outcome = simulate(SMALL, care(), seed)
    least = SMALL.job_minutes + outcome.failures * SMALL.recovery + outcome.selections * SMALL.selection
    assert outcome.hours * 60 >= least - 1e-6
    assert outcome.systematic <= outcome.failures
    assert outcome.ratio == pytest.approx(SMALL.job_minutes / 60 / outcome.hours)


def test_a_fleet_without_spares_waits_for_repairs_and_still_ends() -> None:
    outcome = simulate(
        Fleet(job_size=40, standbys=0, working=40, spares=0, job_minutes=5000.0, rate=1e-4), FirstCome(), 3
    )
    assert outcome.hours * 60 > 5000 + outcome.failures * 20 + 3


def test_the_same_seed_gives_the_same_run() -> None:
    assert simulate(SMALL, FirstCome(), 9) == simulate(SMALL, FirstCome(), 9) != simulate(SMALL, FirstCome(), 10)


def test_who_failed_again_of_late_takes_over_last() -> None:
    lemon, repaired, old = Server(0, False, [100.0, 200.0]), Server(1, False, [150.0]), Server(2, False, [1.0, 2.0])
    now = Lemons.WINDOW + 50.0
    assert Lemons().take_over([repaired, lemon], now) == 0
    assert Lemons().take_over([lemon, old], now) == 1
    assert Lemons().take_over([lemon], now) == 0


@pytest.mark.parametrize(("nodes", "ratio"), [(128, 0.924), (512, 0.848), (1024, 0.785), (2048, 0.696)])
def test_the_closed_form_gives_the_published_ratios(nodes: int, ratio: float) -> None:
    assert best_ratio(nodes) == pytest.approx(ratio, abs=5e-4)


def test_the_reference_loses_the_published_hours() -> None:
    assert simulate(Fleet(), FirstCome(), 42).hours == pytest.approx(9832.3, rel=0.01)
