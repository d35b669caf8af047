"""The fabric: levels of domains, outermost first, over the nodes in fabric order.

Nodes are sorted by their path of domains, then by name, so that every domain of every level is one slice of
positions, and the order of positions is the rank order. Level 0 is the whole cluster, the last level is the
node. A node without a level's label stands alone there, in a domain that satisfies no constraint.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

LABEL_PREFIX = "muster.dev/"
NODE = "node"
DEFAULT_LEVELS = ("block", "leaf")

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Level(Struct, frozen=True):
    """Domains of one level in fabric order; domain `i` holds the positions `starts[i]` to `ends[i]` (excluded).
    `of` gives the domain of each position."""

    name: str
    names: tuple[str, ...]
    starts: Ints
    ends: Ints
    labelled: Bools
    of: Ints

    def sums(self, values: Ints) -> Ints:
        """The sum of a column of nodes over each domain."""
        running = np.concatenate(([0], np.cumsum(values)))
        return running[self.ends] - running[self.starts]


class Fabric(Struct, frozen=True):
    """`levels[0]` is the cluster (without a name), `levels[-1]` the node."""

    levels: tuple[Level, ...]
    nodes: tuple[str, ...]
    positions: Mapping[str, int]
    memo: dict[object, Any] = {}
    """What was asked of it before: it never changes."""

    def depth(self, level: str | None) -> int:
        """The index of a named level; 0 for None. Raises KeyError when there is no such level."""
        if level is None:
            return 0
        for depth, known in enumerate(self.levels):
            if depth and known.name == level:
                return depth
        raise KeyError(level)

    def children(self, depth: int, domain: int) -> slice:
        """The domains one level further in."""
        bounds = self.memo.get(depth)
        if bounds is None:
            level, inner = self.levels[depth], self.levels[depth + 1]
            firsts, lasts = np.searchsorted(inner.starts, level.starts), np.searchsorted(inner.starts, level.ends)
            bounds = self.memo[depth] = (firsts.tolist(), lasts.tolist())
        return slice(bounds[0][domain], bounds[1][domain])

    def path(self, position: int) -> tuple[int, ...]:
        """The domain of a position on each level."""
        found: tuple[int, ...] | None = self.memo.get(("path", position))
        if found is None:
            found = tuple(int(level.of[position]) for level in self.levels)
            self.memo["path", position] = found
        return found

    def inside(self, depth: int, bounds: tuple[int, ...]) -> Bools:
        """Which domains of a level lie in a labelled domain of each of these levels further out (or of itself)."""
        found: Bools | None = self.memo.get((depth, bounds))
        if found is None:
            heads, found = self.levels[depth].starts, np.ones(len(self.levels[depth].starts), dtype=np.bool_)
            if self.nodes:
                for bound in (self.levels[outer] for outer in bounds):
                    found = found & bound.labelled[bound.of[heads]]
            self.memo[depth, bounds] = found
        return found

    def shared(self, positions: Iterable[int]) -> str:
        """The name of the tightest labelled domain that holds all positions; empty when only the cluster does."""
        held = list(positions)
        for level in reversed(self.levels[1:]):
            domains = {int(level.of[position]) for position in held}
            if len(domains) == 1 and level.labelled[domain := domains.pop()]:
                return level.names[domain]
        return ""


def path_of(labels: Mapping[str, str], levels: Iterable[str]) -> tuple[str | None, ...]:
    """A node's domains, outermost first; None where the label is missing or empty."""
    return tuple(labels.get(LABEL_PREFIX + level) or None for level in levels)


def weave(paths: Mapping[str, tuple[str | None, ...]], levels: tuple[str, ...] = DEFAULT_LEVELS) -> Fabric:
    """The fabric of the nodes in `paths`. The input's order does not matter."""
    nodes = sorted(paths, key=lambda name: ([(part is None, part or "") for part in paths[name]], name))
    ordered = [paths[name] for name in nodes]
    inner = [_level(name, depth, ordered) for depth, name in enumerate(levels)]
    size = len(nodes)
    positions = np.arange(size, dtype=np.int64)
    root = Level("", ("",), np.array([0]), np.array([size]), np.array([True]), np.zeros(size, dtype=np.int64))
    leaves = Level(NODE, tuple(nodes), positions, positions + 1, np.ones(size, dtype=np.bool_), positions)
    return Fabric((root, *inner, leaves), tuple(nodes), {name: position for position, name in enumerate(nodes)})


def _level(name: str, depth: int, paths: list[tuple[str | None, ...]]) -> Level:
    starts: list[int] = []
    of = np.zeros(len(paths), dtype=np.int64)
    before: tuple[str | None, ...] | None = None
    for position, path in enumerate(paths):
        group = _group(path, depth)
        if group is None or group != before:
            starts.append(position)
        of[position], before = len(starts) - 1, group
    heads = [paths[start][: depth + 1] for start in starts]
    uses = Counter(head[-1] for head in heads)
    return Level(
        name=name,
        names=tuple(_title(head, uses[head[-1]] > 1) for head in heads),
        starts=np.array(starts, dtype=np.int64),
        ends=np.array([*starts[1:], len(paths)][: len(starts)], dtype=np.int64),
        labelled=np.array([head[-1] is not None for head in heads], dtype=np.bool_),
        of=of,
    )


def _group(path: tuple[str | None, ...], depth: int) -> tuple[str | None, ...] | None:
    """What nodes of one domain of a level share; None for a node that stands alone. Without this level's label it is
    the next domain further in that keeps nodes together, so that domains always nest."""
    for inner in range(depth, len(path)):
        if path[inner] is not None:
            return path[: inner + 1]
    return None


def _title(head: tuple[str | None, ...], ambiguous: bool) -> str:
    """The label itself, with its outer domains where the label alone does not tell."""
    if head[-1] is None:
        return ""
    return "/".join(part or "?" for part in head) if ambiguous else head[-1]
