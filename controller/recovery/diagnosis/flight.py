"""PyTorch's flight recorder: what every rank's collectives were when it dumped them, compared.

A dump is a pickle of `{"entries": [{"pg_id", "collective_seq_id", "profiling_name", "input_sizes", "state", ...}]}`, one
for each rank (TORCH_NCCL_DEBUG_INFO_TEMP_FILE plus its rank). It comes from the job, so nothing in it is ever called.
"""

import io
import pickle
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from msgspec import Struct

SAME_SIZES: Final = ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter")
"""Collectives in which all ranks give the same sizes."""


class Call(Struct, frozen=True):
    """One collective of one rank, as far as all ranks of a group have to agree on it."""

    name: str
    sizes: str


class Flight(Struct, frozen=True):
    """One rank's collectives: (process group, number) to what was called."""

    calls: Mapping[tuple[str, int], Call]


class Odd(Struct, frozen=True):
    """`desync`: ranks called different things; else `rank` is behind all others."""

    desync: bool
    rank: int
    why: str


class _Plain(pickle.Unpickler):
    """Knows dictionaries, lists, text and numbers, and no class or function at all."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"a dump holds no {module}.{name}")


def flight(data: bytes) -> Flight | None:
    """None for what is no dump."""
    try:
        whole: Any = _Plain(io.BytesIO(data)).load()
        entries = [one for one in whole["entries"] if not one.get("is_p2p")]
        return Flight({_key(one): Call(str(one["profiling_name"]), repr(one.get("input_sizes"))) for one in entries})
    except Exception:  # a broken or malicious pickle may raise anything
        return None


def _key(entry: dict[str, Any]) -> tuple[str, int]:
    return str(entry.get("process_group", entry.get("pg_id"))), int(entry["collective_seq_id"])


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
