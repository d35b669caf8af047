"""Lists of hosts as Slurm writes them: `node[01-03,7],login`. Part of what runs inside jobs: the standard library only."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby

MOST = 100_000


def expand(text: str) -> list[str]:
    """The single hosts, in order. Raises ValueError for what is no list."""
    found = [host for part in _parts(text) for host in _expanded(part)]
    if len(found) > MOST:
        raise ValueError(f"more than {MOST} hosts")
    return found


def _parts(text: str) -> Iterator[str]:
    """Split at commas outside of brackets."""
    depth, begin = 0, 0
    for at, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise ValueError(f"{text!r} is no list of hosts")
        if char == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    if depth:
        raise ValueError(f"{text!r} is no list of hosts: a bracket is open")
    yield text[begin:]


def _expanded(part: str) -> list[str]:
    part = part.strip()
    before, bracket, rest = part.partition("[")
    if not bracket:
        return [part] if part else []
    inside, _, after = rest.partition("]")
    tails = _expanded(after) if after else [""]
    return [f"{before}{number}{tail}" for number in _numbers(inside, part) for tail in tails]


def _numbers(inside: str, part: str) -> Iterator[str]:
    for one in inside.split(","):
        low, dash, high = one.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()) or (dash and int(high) - int(low) > MOST):
            raise ValueError(f"{part!r} is no list of hosts")
        for number in range(int(low), int(high or low) + 1):
            yield f"{number:0{len(low)}}"


def compress(hosts: Iterable[str]) -> str:
    """The same hosts in the same order, runs of numbers drawn together."""
    parts = []
    for (prefix, width), group in groupby(hosts, key=_shape):
        some = list(group)
        if not width:
            parts += some
            continue
        ranges = list(_runs([int(one[len(prefix) :]) for one in some], width))
        parts.append(f"{prefix}{ranges[0]}" if len(some) == 1 else f"{prefix}[{','.join(ranges)}]")
    return ",".join(parts)


def _shape(host: str) -> tuple[str, int]:
    """(what stands before the number at the end, the width of that number); addresses have none."""
    match = re.fullmatch(r"(.*?[^0-9.])(\d{1,9})", host)
    return (match[1], len(match[2])) if match else (host, 0)


def _runs(numbers: list[int], width: int) -> Iterator[str]:
    begin = last = numbers[0]
    for number in [*numbers[1:], None]:
        if number is not None and number == last + 1:
            last = number
            continue
        yield f"{begin:0{width}}" if begin == last else f"{begin:0{width}}-{last:0{width}}"
        if number is not None:
            begin = last = number
