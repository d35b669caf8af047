"""Quantities are read as people and Kubernetes write them, exactly, and everything else is refused."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.quantity import (
    format_cpu,
    format_duration,
    format_memory,
    parse_cpu,
    parse_duration,
    parse_memory,
    parse_percent,
)


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("96", 96_000),
        ("500m", 500),
        ("0.5", 500),
        ("1.001", 1001),
        ("1.25", 1250),
        (2, 2000),
        (0.1, 100),
        (" 3 ", 3000),
    ],
)
def test_cpu_is_read_in_thousandths_of_a_core(text: str | float, milli: int) -> None:
    assert parse_cpu(text) == milli


@pytest.mark.parametrize("text", ["", "m", "-1", "1e3", "1 core", "0.0001", "1.5m", "٣", "inf", "nan"])
def test_cpu_that_is_no_whole_thousandth_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_cpu(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("1k", 1000),
        ("64G", 64 * 10**9),
        ("64Gi", 64 * 2**30),
        ("1Ti", 2**40),
        ("1T", 10**12),
        ("1.5Gi", 3 * 2**29),
        ("0.5Ki", 512),
        (4096, 4096),
    ],
)
def test_memory_is_read_in_bytes(text: str | int, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "Gi", "1gi", "1GB", "-1Gi", "1 Gi", "1Ei", "0x10"])
def test_memory_in_an_unknown_unit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected bytes"):
        parse_memory(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("12h", 43_200),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1.5m", 90),
        ("2d", 172_800),
        ("1w", 604_800),
        (7, 7),
        (0.5, 0.5),
    ],
)
def test_a_duration_is_read_in_seconds(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "s", "30", "30 s", "1h 30m", "-5s", "5sec", "1y", "5s!", "9" * 400 + "s", float("nan"), float("inf")]
)
def test_a_duration_without_a_unit_or_with_an_unknown_one_is_refused(text: str | float) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("parse", "text"), [(parse_cpu, "1000001"), (parse_memory, "1025Pi"), (parse_memory, "9" * 99)]
)
def test_what_no_machine_can_have_is_refused(parse: Callable[[str], int], text: str) -> None:
    with pytest.raises(ValueError, match="at most"):
        parse(text)


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("0%", 0), ("100%", 1), ("12.5%", 0.125)])
def test_a_share_is_read_from_0_to_1(text: str, share: float) -> None:
    assert parse_percent(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["5", "101%", "-1%", "%", "half"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="share"):
        parse_percent(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (0.44, "0.4s"),
        (9.96, "10.0s"),
        (42, "42s"),
        (60, "1m"),
        (312, "5m12s"),
        (12_000, "3h20m"),
        (7200, "2h"),
        (12 * 86_400 + 4 * 3600 + 59, "12d4h"),
        (-90, "-1m30s"),
    ],
)
def test_a_duration_is_shown_short(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(0, 10**9))
def test_cpu_survives_being_written_and_read(milli: int) -> None:
    assert parse_cpu(format_cpu(milli)) == milli


@given(st.integers(0, 2**60))
def test_memory_survives_being_written_and_read(size: int) -> None:
    assert parse_memory(format_memory(size)) == size


@given(st.integers(0, 10**4), st.integers(0, 10**4), st.integers(0, 10**4))
def test_parts_of_a_duration_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


@given(st.text(max_size=20))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    for parse in (parse_cpu, parse_memory, parse_duration, parse_percent):
        said = ""
        try:
            assert parse(text) >= 0
        except ValueError as error:
            said = str(error)
        assert not said or "expected" in said
