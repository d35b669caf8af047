"""The elements of an array job: which index has which values."""

import math
import re
from collections.abc import Mapping
from typing import Any, Final

MAX_ELEMENTS: Final = 10_000
MAX_INDEX: Final = 1_000_000_000

_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10})(?::([0-9]{1,10}))?)?")


def indices_of(text: str) -> list[int]:
    """`"1,3,5-9:2"` is [1, 3, 5, 7, 9], ascending. Raises ValueError."""
    found: set[int] = set()
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f'indices: expected such as "0-99", "1,3,5-9" or "0-20:5", found {part.strip()[:40]!r}')
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or not step or last > MAX_INDEX:
            raise ValueError(f"indices: {part.strip()} is no range from a lower to a higher index up to {MAX_INDEX}")
        if (last - first) // step + 1 > MAX_ELEMENTS or len(found) > MAX_ELEMENTS:
            raise ValueError(f"indices: more than {MAX_ELEMENTS} elements")
        found.update(range(first, last + 1, step))
    return sorted(found)


def size_of(array: Mapping[str, Any]) -> int:
    """Number of elements."""
    if array.get("indices") is not None:
        return len(indices_of(array["indices"]))
    return math.prod(len(values) for values in array["matrix"].values())


def index_of(array: Mapping[str, Any], place: int) -> int:
    """The index of the element at a place (0 for the first)."""
    return indices_of(array["indices"])[place] if array.get("indices") is not None else place


def values_of(array: Mapping[str, Any], place: int) -> dict[str, str]:
    """The matrix's values of the element at a place; the last name varies fastest."""
    values: dict[str, str] = {}
    for name, options in reversed((array.get("matrix") or {}).items()):
        place, rest = divmod(place, len(options))
        values[name] = options[rest]
    return dict(reversed(values.items()))
