"""What a health check is: a name, a period, a timeout, and a function from what is seen to what is wrong.

A check is pure on a `Scene`, or reads files below its `sys` and `proc`. What it must remember between two runs (a counter's last
value) it keeps in the `memory` it is given: plain JSON values, since checks run in a process of their own.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from agents.devices.known import Known
from muster.conditions import Condition, Remedy, Severity
from muster.inspection import FoundNic, Inspection

Memory = dict[str, Any]


class Scene(msgspec.Struct, kw_only=True):
    """What a check looks at. `held` are the indices of devices that workers have; `expected` is how many devices there
    must be, as far as somebody has said. `folder` is the agent's own."""

    now: float
    found: Inspection
    known: tuple[Known, ...] = ()
    expected: int | None = None
    held: tuple[int, ...] = ()
    folder: str = "/"
    plugins: str = ""
    sys: Path = Path("/sys")
    proc: Path = Path("/proc")


class Check(NamedTuple):
    """`period` and `timeout` in seconds. `virtual`: also run where the devices are only said to be there."""

    name: str
    period: float
    timeout: float
    run: Callable[[Scene, Memory], list[Condition]]
    virtual: bool = False


class Outcome(msgspec.Struct, kw_only=True):
    """What one run of a check gave. `trouble`: it did not end, or failed."""

    check: str
    conditions: tuple[Condition, ...] = ()
    memory: Memory = {}
    trouble: str = ""


class Request(msgspec.Struct, kw_only=True):
    """What a process that looks at the machine is asked. `timeout`: seconds for each tool."""

    checks: tuple[str, ...] = ()
    look: Literal["all", "ports", "none"] = "all"
    timeout: float = 10.0
    now: float = 0.0
    known: tuple[Known, ...] = ()
    expected: int | None = None
    held: tuple[int, ...] = ()
    folder: str = "/"
    plugins: str = ""
    memory: dict[str, Memory] = {}


class Answer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of the answer: what is seen, with all devices that are known now; the ports alone; or what a check
    gave."""

    seen: Inspection | None = None
    ports: list[FoundNic] | None = None
    known: tuple[Known, ...] = ()
    outcome: Outcome | None = None


LONGEST: Final = 400  # characters of a message


def wrong(
    kind: str,
    reason: str,
    message: str,
    severity: Severity = "warning",
    remedy: Remedy = Remedy.NONE,
    *,
    device: int | None = None,
    subject: str = "",
) -> Condition:
    """A finding; the book gives it its times."""
    return Condition(
        kind=kind, reason=reason, message=message[:LONGEST], severity=severity, remedy=remedy, device=device,
        subject=subject[:200],
    )  # fmt: skip


def grown(memory: Memory, name: str, value: int) -> int:
    """By how much a counter has grown since the last run; 0 the first time and after it was set back."""
    before = memory.get(name)
    memory[name] = value
    return max(0, value - before) if isinstance(before, int) else 0


def in_a_row(memory: Memory, name: str, holds: bool) -> int:
    """For how many runs in a row something has held."""
    count = int(memory.get(name, 0)) + 1 if holds else 0
    if count:
        memory[name] = count
    else:
        memory.pop(name, None)
    return count
