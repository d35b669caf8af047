"""Ports of an attempt: a block on each worker's host, outside the range from which the kernel gives ports away."""

import hashlib
from collections.abc import Collection
from typing import Any, Final

LOWEST: Final = 10_000
HIGHEST: Final = 32_767
"""Below 10000 live well-known services; from 32768 on the usual ephemeral range."""

BLOCK: Final = 4
"""Ports of one worker: the first is the master port when the worker is the gang's first; the others are the
program's, through MUSTER_PORTS."""

BLOCKS: Final = {"ray": 40, "verl": 40, "openrlhf": 40, "sglang": 16}
"""Where a framework needs more."""


class NoPorts(LookupError):
    """No block of this size is left on the host."""


def ports_needed(spec: dict[str, Any]) -> int:
    """How many consecutive ports each worker of this job gets."""
    return BLOCKS.get(spec.get("framework", "command"), BLOCK)


def choose_block(
    host: str,
    size: int,
    used: Collection[int],
    avoid: Collection[int],
    ephemeral: tuple[int, int],
    seed: str,
) -> tuple[int, ...]:
    """`size` consecutive ports of `host` that are neither in `used` (by others on that host), in `avoid`, nor in
    `ephemeral` (first and last). The search begins at a place given by `seed`, so that each attempt gets fresh
    ports. Raises NoPorts."""
    low, high = ephemeral
    count = (HIGHEST - LOWEST + 1) // size
    first = int.from_bytes(hashlib.sha256(f"{host}\0{seed}".encode()).digest()[:8], "big")
    for step in range(count):
        start = LOWEST + (first + step) % count * size
        block = range(start, start + size)
        if not any(port in used or port in avoid or low <= port <= high for port in block):
            return tuple(block)
    raise NoPorts(f"{host} has no {size} consecutive free ports between {LOWEST} and {HIGHEST} outside {low}-{high}")
