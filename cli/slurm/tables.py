"""Output formats of squeue, sinfo and sacct: `%.10i %9P`, `jobid,state%20`."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cli.errors import Exit, Failure

Object = dict[str, Any]
Cell = tuple[str, Callable[[Object], object]]
"""(heading, value)."""

_FIELD = re.compile(r"%(\.?)(\d*)([A-Za-z])")


def percent(text: str, known: Mapping[str, Cell], rows: Sequence[Object], *, headers: bool, command: str) -> str:
    """Lines by a format of %-letters: `%.8i` is eight wide, to the right; without a number as wide as it is."""
    for match in _FIELD.finditer(text):
        if match[3] not in known:
            raise Failure(f"unknown format letter %{match[3]}", code=Exit.USAGE, hint=f"known: {' '.join(known)}")

    def line(value: Callable[[Cell], str]) -> str:
        return _FIELD.sub(lambda match: _fit(value(known[match[3]]), match[2], bool(match[1])), text).rstrip()

    lines = [line(lambda cell: cell[0])] if headers else []
    return "\n".join(lines + [line(lambda cell, row=row: str(cell[1](row))) for row in rows])  # type: ignore[misc]


def _fit(text: str, width: str, right: bool) -> str:
    if not width:
        return text
    cut = text[: int(width)]
    return cut.rjust(int(width)) if right else cut.ljust(int(width))


def named(
    text: str, known: Mapping[str, tuple[str, int, Callable[[Object], object]]], *, command: str
) -> list[tuple[str, int, Callable[[Object], object]]]:
    """Columns of `jobid,state%20`: (heading, width, value)."""
    found = []
    for word in filter(None, text.split(",")):
        name, _, width = word.partition("%")
        if name.lower() not in known:
            raise Failure(f"unknown field {name!r}", code=Exit.USAGE, hint=f"known: {', '.join(known)}")
        heading, default, value = known[name.lower()]
        if width and not re.fullmatch(r"-?\d+", width):
            raise Failure(f"{word!r}: expected FIELD%WIDTH", code=Exit.USAGE)
        found.append((heading, int(width or default), value))
    return found


def aligned(
    columns: Sequence[tuple[str, int, Callable[[Object], object]]], rows: Sequence[Object], *, headers: bool
) -> str:
    """As sacct prints: right-aligned (left with a negative width), cut with a +."""
    lines = []
    if headers:
        lines = [" ".join(_cell(one[0], one[1]) for one in columns), " ".join("-" * abs(one[1]) for one in columns)]
    lines += [" ".join(_cell(str(value(row)), width) for _, width, value in columns) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _cell(text: str, width: int) -> str:
    size = abs(width)
    cut = text if len(text) <= size else text[: size - 1] + "+"
    return cut.rjust(size) if width > 0 else cut.ljust(size)


def piped(
    columns: Sequence[tuple[str, int, Callable[[Object], object]]], rows: Sequence[Object], *, headers: bool, last: bool
) -> str:
    """With | between the fields, and behind the last one when `last`."""
    end = "|" if last else ""
    lines = ["|".join(one[0] for one in columns) + end] if headers else []
    return "\n".join(lines + ["|".join(str(value(row)) for _, _, value in columns) + end for row in rows])
