"""Quantity fields: kept as written, checked at the edge, read through `muster.quantity`."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import BeforeValidator

from muster.quantity import parse_cpu, parse_duration, parse_memory, parse_percent


def _cpu(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError('expected cores such as "8", "0.5" or "500m"')
    parse_cpu(value)
    return str(value)


def _memory(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError('expected bytes such as "512Mi", "64Gi", "1Ti" or "64G"')
    parse_memory(value)
    return str(value)


def _duration(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError('expected a duration such as "30s", "12h" or "1h30m"')
    if parse_duration(value) <= 0:
        raise ValueError("expected a duration above zero")
    return f"{value}s" if isinstance(value, int | float) else value


def _duration_or_auto(value: object) -> object:
    return value if value == "auto" else _duration(value)


def _duration_or_never(value: object) -> object:
    return value if value == "never" else _duration(value)


def _moment(value: object) -> object:
    """RFC 3339 with an offset, kept in UTC."""
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00")) if isinstance(value, str) else None
        if moment is not None and moment.tzinfo is not None:
            return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        pass
    raise ValueError('expected a time with its offset such as "2026-12-01T08:00:00Z"')


def _percent(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError('expected a share such as "5%"')
    parse_percent(value)
    return value


def _hang_after(value: object) -> object:
    """A duration, `auto` or `never`, for all phases or by their names."""
    if isinstance(value, dict):
        return {str(name): _hang_after_word(each) for name, each in value.items()}
    return _hang_after_word(value)


def _hang_after_word(value: object) -> str:
    return value if value in ("auto", "never") else str(_duration(value))


Cpu = Annotated[str, BeforeValidator(_cpu)]
Memory = Annotated[str, BeforeValidator(_memory)]
Duration = Annotated[str, BeforeValidator(_duration)]
DurationOrAuto = Annotated[str, BeforeValidator(_duration_or_auto)]
DurationOrNever = Annotated[str, BeforeValidator(_duration_or_never)]
HangAfter = Annotated[str | dict[str, str], BeforeValidator(_hang_after)]
Moment = Annotated[str, BeforeValidator(_moment)]
"""A point in time."""
Percent = Annotated[str, BeforeValidator(_percent)]
