"""PyTorch's flight recorder: what every rank's collectives were when it dumped them.

A dump is a pickle of `{"entries": [{"pg_id", "collective_seq_id", "profiling_name", "input_sizes", "state", ...}]}`, one
for each rank (TORCH_NCCL_DEBUG_INFO_TEMP_FILE plus its rank). It comes from the job, so nothing in it is ever called.
"""

import io
import pickle
from collections.abc import Mapping
from typing import Any, NoReturn

from msgspec import Struct


class Call(Struct, frozen=True):
    """One collective of one rank, as far as all ranks of a group have to agree on it."""

    name: str
    sizes: str


class Flight(Struct, frozen=True):
    """One rank's collectives: (process group, number) to what was called."""

    calls: Mapping[tuple[str, int], Call]


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


def newest(flight: Flight, count: int) -> list[list[str | int]]:
    """`[group, number, name, sizes]` of the newest collectives of each group, to be told in few words."""
    groups: dict[str, list[int]] = {}
    for group, number in flight.calls:
        groups.setdefault(group, []).append(number)
    return [
        [group, number, flight.calls[group, number].name, flight.calls[group, number].sizes]
        for group, numbers in sorted(groups.items())
        for number in sorted(numbers)[-count:]
    ]
