"""PyTorch's flight recorders of several ranks, compared."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from muster.flight import Call as Call
from muster.flight import Flight as Flight
from muster.flight import flight as flight

SAME_SIZES: Final = ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter")
"""Collectives in which all ranks give the same sizes."""


class Odd(Struct, frozen=True):
    """`desync`: ranks called different things; else `rank` is behind all others."""

    desync: bool
    rank: int
    why: str


def odd_one(flights: Mapping[int, Flight]) -> Odd | None:
    """By rank. The first collective in which ranks of one group disagree; else the one rank that did not reach the
    newest collective of its group. None when all agree."""
    if len(flights) < 2:
        return None
    for key in sorted({key for one in flights.values() for key in one.calls}):
        seen = {rank: one.calls[key] for rank, one in flights.items() if key in one.calls}
        if found := _different(key, seen):
            return found
    return _behind(flights)


def _different(key: tuple[str, int], seen: Mapping[int, Call]) -> Odd | None:
    kinds: dict[tuple[str, str], list[int]] = {}
    for rank, call in sorted(seen.items()):
        agreed = call.sizes if call.name.rpartition(":")[2] in SAME_SIZES else ""
        kinds.setdefault((call.name, agreed), []).append(rank)
    if len(kinds) < 2:
        return None
    few = min(kinds.values(), key=len)
    words = " but ".join(f"rank {ranks[0]} called {name} {sizes}".rstrip() for (name, sizes), ranks in kinds.items())
    return Odd(True, few[0], f"in collective {key[1]} {words}")


def _behind(flights: Mapping[int, Flight]) -> Odd | None:
    for group in sorted({group for one in flights.values() for group, _ in one.calls}):
        last = {rank: max((n for name, n in one.calls if name == group), default=-1) for rank, one in flights.items()}
        late = [rank for rank, number in last.items() if 0 <= number < max(last.values())]
        if len(late) == 1 and len([number for number in last.values() if number >= 0]) > 2:
            return Odd(False, late[0], f"all others wait for rank {late[0]}, whose last collective is {last[late[0]]}")
    return None
