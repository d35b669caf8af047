"""Who printed a line, and when: prefixes of launchers, names of files, dates of loggers and kernels."""

import re
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct


class Mark(Struct, frozen=True):
    """What a prefix says of its line, and the line without it."""

    text: str
    rank: int | None = None
    node: str = ""
    process: str = ""


_RANKS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"^\[rank ?(?P<rank>\d+)\]:? ?",
        r"^\[default(?P<rank>\d+)\]:? ?",
        r"^\[[\w-]+ rank (?P<rank>\d+)\] ?",
        r"^\[\d+,(?P<rank>\d+)\]<std\w+>:? ?",
        r"^\((?P<process>[\w.:]+ pid=\d+)(?:, ip=(?P<node>[\w.:-]+))?\) ?",
        r"^(?P<node>[\w.-]+): +(?=\[rank\d+\])",
    )
)
_LABEL: Final = re.compile(r"^ *(?P<rank>\d{1,5}): ?")
"""`srun --label`: believed only where nearly every line has one."""
_NAMES: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?:rank|task|proc|process)[-_. ]?(\d+)(?=[^/]*$)",
        r"(?:^|/)(\d+)/std(?:err|out)\.log$",
        r"[-_](\d+)\.(?:out|err)(?:\.gz)?$",
    )
)
_NODE: Final = re.compile(r"(?:^|[/_.-])((?:node|host|gpu|nid|n)-?\d+)(?=[/_.-]|$)", re.IGNORECASE)


def labelled(lines: list[str]) -> bool:
    """Whether `srun --label` (or the like) has numbered the lines."""
    full = [line for line in lines if line.strip()]
    numbered = [match for line in full if (match := _LABEL.match(line))]
    return len(full) >= 2 and len(numbered) >= 0.8 * len(full)


def mark(line: str, *, label: bool) -> Mark:
    rank: int | None = None
    node = process = ""
    if label and (found := _LABEL.match(line)):
        rank, line = int(found["rank"]), line[found.end() :]
    for pattern in _RANKS:
        if found := pattern.match(line):
            named = found.groupdict()
            rank = int(named["rank"]) if named.get("rank") else rank
            node, process = named.get("node") or node, named.get("process") or process
            line = line[found.end() :]
    return Mark(line, rank, node, process)


def rank_of_file(name: str) -> int | None:
    for pattern in _NAMES:
        if found := pattern.search(name):
            return int(found[1])
    return None


def node_of_file(name: str) -> str:
    found = _NODE.search(name)
    return found[1] if found else ""


_ISO: Final = re.compile(r"\b(\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_GLOG: Final = re.compile(r"(?:^|[\[\s])[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_KERNEL: Final = re.compile(r"\[\w{3} (\w{3}) +(\d+) (\d\d):(\d\d):(\d\d) (\d{4})\]")
_SYSLOG: Final = re.compile(r"^(\w{3}) +(\d+) (\d\d):(\d\d):(\d\d) ")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def date(line: str, year: int) -> float | None:
    """UTC seconds of the date that a line begins with. `year` for those that do not say it; zones are not known, so
    all are read alike."""
    head = line[:120]
    if found := _ISO.search(head):
        return _seconds(found[1], found[2], found[3], found[4], found[5], found[6], found[7])
    if found := _GLOG.search(head):
        return _seconds(year, found[1], found[2], found[3], found[4], found[5], found[6])
    if (found := _KERNEL.search(head)) and found[1] in _MONTHS:
        return _seconds(found[6], _MONTHS.index(found[1]) + 1, found[2], found[3], found[4], found[5])
    if (found := _SYSLOG.match(head)) and found[1] in _MONTHS:
        return _seconds(year, _MONTHS.index(found[1]) + 1, found[2], found[3], found[4], found[5])
    return None


def _seconds(*parts: str | int | None) -> float | None:
    whole = [int(part or 0) for part in parts[:6]]
    fraction = float(f"0.{parts[6]}") if len(parts) > 6 and parts[6] else 0.0
    try:
        year, month, day, hour, minute, second = whole
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp() + fraction
    except ValueError:
        return None
