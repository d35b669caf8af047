"""Where a line of a log begins: its time, as the source has it, and its message."""

import re
from typing import Final, NamedTuple

_MONTH: Final = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_ISO: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_STAMPS: Final = (
    re.compile(rf"^(?:\w+\s*:\w+\s*:\s*)?\[?({_ISO})\]?(?:\|\w+\|kernel\[[^\]]*\]\|)?\s*(?:\S+ kernel:)?\s*"),
    re.compile(rf"^(?:\w+\s*:\w+\s*:\s*)?\[(\w{{3}} {_MONTH}\s+\d+ \d\d:\d\d:\d\d \d{{4}})\]\s*"),
    re.compile(rf"^\[({_MONTH}\s+\d+ \d{{4}} \d\d:\d\d:\d\d)\]\s*"),
    re.compile(r"^\[(\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d(?:\.\d+)?)\]\s*"),
    re.compile(rf"^({_MONTH}\s+\d+ \d\d:\d\d:\d\d)\s+(?:\S+\s+){{0,2}}kernel:\s*"),
    re.compile(r"^(\d\d:\d\d:\d\d)\s+(?:\S+\s+)?kernel:\s*"),
    re.compile(r"^(?:\w+\s*:\w+\s*:\s*|<\d+>)?\[\s*(\d+\.\d{3,9})\]\s*"),
)
_UPTIME: Final = re.compile(r"^\[\s*\d+\.\d{3,9}\]\s*")
_BARE: Final = re.compile(r"^(?:\S+\s+)?kernel:\s*")
_INNER: Final = re.compile(rf"\[({_MONTH}\s+\d+ \d{{4}} \d\d:\d\d:\d\d)\]\s*")


class Line(NamedTuple):
    time: str | None
    message: str


def split(raw: str) -> Line:
    """A second stamp after the first (uptime after wall time) is dropped from the message."""
    text = raw.strip()
    for pattern in _STAMPS:
        found = pattern.match(text)
        if found:
            return Line(found.group(1), _UPTIME.sub("", text[found.end() :]))
    return Line(None, _BARE.sub("", text))


def pieces(raw: str) -> list[str]:
    """A line that was cut by the next stamped one is two lines."""
    cuts = [found.start() for found in _INNER.finditer(raw) if found.start() > 0]
    return [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
