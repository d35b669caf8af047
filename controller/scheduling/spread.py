"""How a gang that no single domain holds is spread over several, so that it also spans the fewest leaves.

The fewest domains come first. Which of them, and how many workers in each, is decided by the leaves: of a set of domains
the leaves are taken from the largest on. A set is bettered by exchanging one domain for another while that spans fewer leaves, or
as many in smaller domains.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from controller.scheduling.devices import fewest
from controller.scheduling.fabric import Ints

EXCHANGES: Final = 64
"""Of one round; of more only the first are tried."""

ROUNDS: Final = 4


def spread(sizes: Sequence[int], leaves: Sequence[Ints], need: int) -> list[int]:
    """Parts of `need` for each domain: `sizes` is what each holds (ascending), `leaves` what each leaf of it holds."""
    parts = fewest(list(sizes), need)
    count = sum(part > 0 for part in parts)
    if count < 2:
        return parts
    chosen = list(range(len(sizes) - count, len(sizes)))
    score = _score(chosen, sizes, leaves, need)
    for _ in range(ROUNDS):
        others = [place for place in range(len(sizes)) if place not in chosen]
        swaps = [
            sorted([*chosen[:gone], *chosen[gone + 1 :], other])
            for other in others
            for gone in range(count)
            if sum(sizes[place] for place in chosen) - sizes[chosen[gone]] + sizes[other] >= need
        ]
        found = min(((_score(swap, sizes, leaves, need), swap) for swap in swaps[:EXCHANGES]), default=None)
        if found is None or found[0] >= score:
            break
        score, chosen = found
    return _parts(chosen, len(sizes), leaves, need)


def _score(chosen: Sequence[int], sizes: Sequence[int], leaves: Sequence[Ints], need: int) -> tuple[int, int]:
    """(leaves spanned, workers that the domains would hold)."""
    rooms = np.sort(np.concatenate([leaves[place] for place in chosen]))[::-1]
    return int(np.searchsorted(np.cumsum(rooms), need)) + 1, sum(sizes[place] for place in chosen)


def _parts(chosen: Sequence[int], domains: int, leaves: Sequence[Ints], need: int) -> list[int]:
    """From the largest leaf on; the last one is the smallest that holds what is left. Every chosen domain gets some."""
    owner = np.concatenate([np.full(len(leaves[place]), place) for place in chosen])
    rooms = np.concatenate([leaves[place] for place in chosen])
    order = np.lexsort((owner, -rooms))
    parts = [0] * domains
    for at, leaf in enumerate(order.tolist()):
        room = int(rooms[leaf])
        if room >= need:
            rest = order[at:]
            last = int(rest[np.flatnonzero(rooms[rest] >= need)[-1]])
            parts[int(owner[last])] += need
            break
        parts[int(owner[leaf])] += room
        need -= room
    return parts
