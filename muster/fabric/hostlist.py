"""Host lists as Slurm writes them: `srv[1101-1108,1110],gpu-a`."""

import re
from collections.abc import Iterator
from typing import Final

MOST: Final = 100_000


def expand(text: str) -> list[str]:
    """Names in order. Raises ValueError for brackets that do not close, wrong ranges, and more than MOST names."""
    names: list[str] = []
    for part in _parts(text):
        for name in _expand(part):
            names.append(name)
            if len(names) > MOST:
                raise ValueError(f"a host list names more than {MOST} hosts")
    return names


def _parts(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth < 0 or depth > 1:
            raise ValueError(f"brackets of {text[:60]!r} do not match")
        if char == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    if depth:
        raise ValueError(f"brackets of {text[:60]!r} do not close")
    yield text[start:].strip()


def _expand(part: str) -> Iterator[str]:
    found = re.match(r"([^\[]*)\[([^\]]*)\](.*)$", part)
    if not found:
        if part:
            yield part
        return
    head, inside, tail = found.groups()
    for item in inside.split(","):
        first, dash, last = item.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError(f"not a range: {item[:30]!r}")
        end = int(last) if dash else int(first)
        if end < int(first) or end - int(first) > MOST:
            raise ValueError(f"not a range: {item[:30]!r}")
        for number in range(int(first), end + 1):
            for rest in _expand(tail) if tail else ("",):
                yield f"{head}{number:0{len(first)}}{rest}"
