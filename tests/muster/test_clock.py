"""The clock seam: jumps of the wall clock move nothing, and times on the wire are RFC 3339 in UTC."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.clock import ManualClock, SystemClock, from_iso, iso


def test_a_jump_of_the_wall_clock_moves_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    before = clock.now()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 86_400)
    assert 0 <= clock.now() - before < 60
    assert clock.drift() == pytest.approx(86_400, abs=60)


def test_both_times_of_the_system_clock_advance_together() -> None:
    clock = SystemClock()
    now, boot = clock.now(), clock.boottime()
    while clock.boottime() == boot:
        pass
    assert clock.now() > now


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(now=100.0, boottime=5.0)
    assert (clock.now(), clock.boottime()) == (100.0, 5.0)
    clock.advance(2.5)
    assert (clock.now(), clock.boottime()) == (102.5, 7.5)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "1970-01-01T00:00:00.000Z"), (1_700_000_000.25, "2023-11-14T22:13:20.250Z"), (None, None)],
)
def test_times_on_the_wire_are_utc_with_milliseconds(seconds: float | None, text: str | None) -> None:
    assert iso(seconds) == text


@pytest.mark.parametrize("text", ["2023-11-14T22:13:20.250Z", "2023-11-14T23:13:20.250+01:00"])
def test_a_time_is_read_with_its_offset(text: str) -> None:
    assert from_iso(text) == 1_700_000_000.25


@pytest.mark.parametrize("text", ["", "yesterday", "2023-13-01T00:00:00Z"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        from_iso(text)


@given(st.integers(0, 4_000_000_000_000))
def test_a_time_survives_the_wire(milliseconds: int) -> None:
    assert from_iso(iso(milliseconds / 1000) or "") == pytest.approx(milliseconds / 1000, abs=0.001)
