"""Bordered tables as monitoring tools print them: rows of cells in blocks between rules."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_RULE: Final = re.compile(r"^[|+][-=+|]{3,}[|+]?$")
_BUS: Final = re.compile(
    r"(?<![0-9A-Fa-f:.])((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?![0-9A-Fa-f])"
)


class Block(NamedTuple):
    """Rows between two rules; `closed` when a rule follows, `torn` when a row has no end."""

    rows: list[list[str]]
    closed: bool
    torn: bool


def blocks(lines: Iterable[str]) -> Iterator[Block]:
    """Rows begin and end with a bar; a row that was wrapped once is joined."""
    rows: list[list[str]] = []
    torn, held = False, ""
    for raw in lines:
        line = raw.strip()
        if held and not line.startswith(("|", "+")) and line.endswith("|"):
            line, held = f"{held} {line}", ""
        elif held:
            torn, held = True, ""
        if _RULE.match(line):
            if rows or torn:
                yield Block(rows, True, torn)
            rows, torn = [], False
        elif line.startswith("|") and line.endswith("|") and len(line) > 1:
            rows.append([cell.strip() for cell in line[1:-1].split("|")])
        elif line.startswith("|"):
            held = line
    if rows or torn or held:
        yield Block(rows, False, torn or bool(held))


def bus_of(text: str) -> str | None:
    """The first PCI address in `text`, as it is written there."""
    found = _BUS.search(text)
    return found.group(1) if found else None


def number(text: str | None) -> int | float | None:
    """The number that `text` begins with, without its unit; None for "N/A" and the like."""
    found = re.match(r"\s*(-?\d+(?:\.\d+)?)", text or "")
    if not found:
        return None
    return float(found.group(1)) if "." in found.group(1) else int(found.group(1))


def whole(text: str | None) -> int | None:
    value = number(text)
    return None if value is None else int(value)


def pair(text: str) -> tuple[int, int] | None:
    """Used and total of "12MiB / 345MiB", "60980/65536 MiB"; None when it is not there."""
    found = re.search(r"(\d+)\s*(?:MiB|MB)?\s*/\s*(\d+)\s*(?:MiB|MB)?", text, re.IGNORECASE)
    return (int(found.group(1)), int(found.group(2))) if found else None
