"""What commands print: tables, ages, colours, JSON and YAML."""

import math
import os
import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

WIDTH: Final = 80
GAP: Final = "  "
FORMATS: Final = ("table", "wide", "json", "yaml", "name")

_GOOD: Final = frozenset({"Running", "Ready", "Succeeded", "ok", "yes"})
_BAD: Final = frozenset({"Failed", "Lost", "FAIL", "no", "warning"})
_WAITING: Final = frozenset({"Queued", "Starting", "Recovering", "Unknown", "Stopping", "warn", "Suspended"})
_PLAIN: Final = str.maketrans("●│├└─·×→–…", "o||`-.x>-~")


@dataclass(frozen=True, slots=True)
class Column:
    """`elastic` columns give way when the table is too wide. `wide` ones are shown with -o wide only."""

    title: str
    value: Callable[[dict[str, Any]], object]
    elastic: bool = False
    wide: bool = False
    painted: bool = False


def terminal_width() -> int:
    """Columns of the terminal, 80 where the output is none."""
    if not sys.stdout.isatty():
        return WIDTH
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH
    except OSError:
        return WIDTH


def colours() -> bool:
    """Only a terminal is painted, and none whose user set NO_COLOR (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, word: str) -> str:
    """`text` in the colour of the phase `word`."""
    number = 32 if word in _GOOD else 31 if word in _BAD else 33 if word in _WAITING else 0
    return f"\x1b[{number}m{text}\x1b[0m" if number else text


def say(text: str) -> None:
    """Print, in ASCII where the terminal cannot show more."""
    encoding = sys.stdout.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
    print(text)


def table(
    columns: Sequence[Column],
    rows: Sequence[dict[str, Any]],
    *,
    headers: bool = True,
    width: int | None = WIDTH,
    colour: bool = False,
) -> str:
    """Left-aligned columns. Elastic cells are cut so that lines fit `width` (None: never cut)."""
    cells = [[clean(column.value(row)) for column in columns] for row in rows]
    shown = [[column.title for column in columns], *cells] if headers else cells
    if not shown:
        return ""
    sizes = [max(_cells(line[index]) for line in shown) for index in range(len(columns))]
    if width is not None:
        _shrink(sizes, columns, width)
    lines = []
    for number, line in enumerate(shown):
        painted = colour and (not headers or number > 0)
        lines.append(_line(columns, line, sizes, painted))
    return "\n".join(lines)


def _shrink(sizes: list[int], columns: Sequence[Column], width: int) -> None:
    for index in reversed(range(len(columns))):
        over = sum(sizes) + len(GAP) * (len(sizes) - 1) - width
        if over > 0 and columns[index].elastic:
            sizes[index] = max(len(columns[index].title), sizes[index] - over)


def _line(columns: Sequence[Column], line: Sequence[str], sizes: Sequence[int], colour: bool) -> str:
    parts = []
    for column, text, size in zip(columns, line, sizes, strict=True):
        cut = _cut(text, size)
        padding = " " * (size - _cells(cut))
        parts.append((paint(cut, text.partition(",")[0]) if colour and column.painted else cut) + padding)
    return GAP.join(parts).rstrip()


def clean(value: object) -> str:
    """One line without control characters: what a program wrote never steers the terminal."""
    if value is None or value == "":
        return "-"
    text = value if isinstance(value, str) else str(value)
    return "".join(char if char.isprintable() else " " for char in text)


def printable(text: str) -> str:
    """As `clean`, but keeps line ends and tabs."""
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)


def _cells(text: str) -> int:
    """Columns on a terminal: East Asian wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _cut(text: str, size: int) -> str:
    if _cells(text) <= size:
        return text
    while text and _cells(text) > size - 1:
        text = text[:-1]
    return text.rstrip() + "…"


def as_json(value: object) -> str:
    import json

    return json.dumps(value, indent=2, ensure_ascii=False)


def as_yaml(value: object) -> str:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True, width=100)).rstrip()


def moment(text: str | None) -> float | None:
    """UTC seconds of a time on the wire."""
    if not text:
        return None
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def now() -> float:
    return datetime.now(UTC).timestamp()


def age(text: str | None, at: float) -> str:
    """How long ago, as kubectl has it: `42s`, `5m`, `3h20m`, `12d`; `-` for never."""
    then = moment(text)
    return "-" if then is None else _short(max(0, int(at - then)))


def until(text: str | None, at: float) -> str:
    """How long until then, in the words of `age`; `now` for what is due; `-` for never."""
    then = moment(text)
    if then is None:
        return "-"
    return _short(math.ceil(then - at)) if then - at >= 1 else "now"


def _short(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{hours}h" if hours < 48 else f"{days}d"


def span(seconds: float | None) -> str:
    """A measured duration, exact where it is short: `4ms`, `1.10s`, `42.3s`, `5m12s`."""
    from muster.quantity import format_duration

    if seconds is None:
        return "-"
    if abs(seconds) < 0.9995:
        return f"{round(seconds * 1000)}ms"
    if abs(seconds) < 59.95:
        return f"{seconds:.2f}s" if abs(seconds) < 9.995 else f"{seconds:.1f}s"
    return format_duration(round(seconds))


def size(count: int | None) -> str:
    """Bytes for people: `512B`, `1.5MiB`."""
    if count is None:
        return "-"
    value, units = float(count), ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    for unit in units:
        if value < 1024 or unit == units[-1]:
            return f"{count}B" if unit == "B" else f"{value:.1f}{unit}"
        value /= 1024
    raise AssertionError
