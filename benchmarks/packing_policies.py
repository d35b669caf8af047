"""The policies of the openb set-up: three published ones as references, and the production rule."""

from collections.abc import Sequence

import numpy as np

from benchmarks.packing import MOST, Nodes, Pod
from controller.scheduling.discipline.fragmentation import COMMON, Lessons, Shape, due, learn, place


def tightest(nodes: Nodes, pod: Pod, among: np.ndarray) -> np.ndarray:
    """The device with the least room that holds the fraction."""
    free = nodes.gpu[among]
    return np.where(free >= pod.shape.milli, free, 2000).argmin(axis=1)


class Random:
    """Any node, any device."""

    def __init__(self, nodes: Nodes, pods: Sequence[Pod], seed: int) -> None:
        self.nodes, self.draw = nodes, np.random.default_rng(seed)

    def sees(self, pod: Pod) -> bool:
        return True  # each decision draws anew

    def costs(self, pod: Pod, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        node = int(self.draw.integers(len(among)))
        cost, device = np.ones(len(among)), np.zeros(len(among), np.int64)
        cost[node] = 0.0
        if pod.shape.devices:
            device[node] = self.draw.choice(np.flatnonzero(self.nodes.gpu[among[node]] >= pod.shape.milli))
        return cost, device


class BestFit:
    """The node with the least CPU and GPU left, half and half, in whole percent of the largest node."""

    def __init__(self, nodes: Nodes, pods: Sequence[Pod], seed: int) -> None:
        self.nodes = nodes

    def sees(self, pod: Pod) -> bool:
        return False

    def costs(self, pod: Pod, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cpu = (self.nodes.cpu[among] - pod.shape.cpu) / 128_000 * 0.5
        gpu = (np.maximum(self.nodes.gpu[among], 0).sum(axis=1) - pod.milli) / 8_000 * 0.5
        return -((1.0 - cpu - gpu) * 100).astype(np.int64).astype(float), tightest(self.nodes, pod, among)


class FGD:
    """Fragmentation gradient descent: the least growth of the GPU that a typical pod of the workload, known in advance,
    could not use; the score is a whole number, so that near equals are taken by name."""

    def __init__(self, nodes: Nodes, pods: Sequence[Pod], seed: int) -> None:
        self.nodes = nodes
        typical = _typical(pods)
        self.weight = np.array([share for _, share in typical])
        self.cpu = np.array([shape.cpu for shape, _ in typical])
        self.count = np.array([shape.devices for shape, _ in typical])
        self.sizes, self.size = np.unique([shape.milli for shape, _ in typical], return_inverse=True)
        self.count = np.where(self.count, self.count, MOST + 1)  # all idle GPU is fragment for a pod that asks none
        self.cached = np.full((len(nodes.names), MOST + 1), -2, np.int64)  # the CPU and the rests that `before` is of
        self.before = np.zeros(len(nodes.names))
        models = sorted(set(nodes.kinds))
        access = [[not shape.kinds or model in shape.kinds for shape, _ in typical] for model in models]
        self.access = np.array(access)[[models.index(kind) for kind in nodes.kinds]]

    def sees(self, pod: Pod) -> bool:
        return False

    def costs(self, pod: Pod, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shape, free = pod.shape, self.nodes.gpu[among]
        before = self._before(among)
        cpu = self.nodes.cpu[among] - shape.cpu
        if shape.devices != 1 or shape.milli >= 1000:
            whole = free >= 1000
            taken = whole & (whole.cumsum(axis=1) <= shape.devices) if shape.devices else np.zeros_like(whole)
            after = self._fragment(among, cpu, free - 1000 * taken)
            return -_score(before - after), np.zeros(len(among), np.int64)
        first = (free >= shape.milli) & ~_repeated(free)
        rows, device = np.nonzero(first)
        left = free[rows]
        left[np.arange(len(rows)), device] -= shape.milli
        after = self._fragment(among[rows], cpu[rows], left)
        scores = np.full(free.shape, -1.0)
        scores[rows, device] = _score(before[rows] - after)
        best = scores.argmax(axis=1)
        return -scores[np.arange(len(among)), best], best

    def _before(self, among: np.ndarray) -> np.ndarray:
        """The fragment of each node as it is; made anew only where a node has changed."""
        state = np.column_stack([self.nodes.cpu[among], self.nodes.gpu[among]])
        stale = (self.cached[among] != state).any(axis=1)
        if stale.any():
            changed = among[stale]
            self.cached[changed] = state[stale]
            self.before[changed] = self._fragment(changed, self.nodes.cpu[changed], self.nodes.gpu[changed])
        return self.before[among]

    def _fragment(self, among: np.ndarray, cpu: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Expected thousandths of each node that a typical pod cannot use."""
        free = np.sort(np.maximum(free, 0), axis=1)
        below = np.zeros((len(free), MOST + 1))  # below[n]: the n smallest rests together
        np.cumsum(free, axis=1, out=below[:, 1:])
        small = np.zeros((len(free), len(self.sizes)), np.intp)  # how many rests are smaller than each size
        for column in range(MOST):
            small += free[:, column, None] < self.sizes
        lost = np.take_along_axis(below, small, axis=1)
        usable = self.access[among] & (cpu[:, None] >= self.cpu) & (MOST - small[:, self.size] >= self.count)
        return np.where(usable, lost[:, self.size], below[:, -1:]) @ self.weight


class Muster:
    """The production rule: it learns the shapes as they come, and knows no pod in advance."""

    def __init__(self, nodes: Nodes, pods: Sequence[Pod], seed: int) -> None:
        self.nodes = nodes
        self.counts: dict[Shape, int] = {}
        self.seen = 0
        self.lessons: Lessons = learn({}, nodes.free())

    def sees(self, pod: Pod) -> bool:
        self.counts[pod.shape] = self.counts.get(pod.shape, 0) + 1
        self.seen += 1
        if not due(self.seen):
            return False
        self.lessons = learn(self.counts, self.nodes.free())
        return True

    def costs(self, pod: Pod, among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        free = self.nodes.gpu[among]
        fresh = ((free == 1000) | (free < 0)).all(axis=1) & (free[:, 0] >= 0)
        kinds = [self.nodes.kinds[node] for node in among]
        return place(self.lessons, pod.shape, self.nodes.cpu[among], free, fresh, kinds)


POLICIES = {"random": Random, "bestfit": BestFit, "fgd": FGD, "muster": Muster}


def _score(gain: np.ndarray) -> np.ndarray:
    return np.floor(100 / (1 + np.exp(-gain.round(6) / 1000)))  # what is nothing but for rounding is nothing


def _repeated(free: np.ndarray) -> np.ndarray:
    """Devices whose rest equals that of an earlier device: they need not be looked at again."""
    same = free[:, :, None] == free[:, None, :]
    return np.tril(same, -1).any(axis=2)


def _typical(pods: Sequence[Pod]) -> list[tuple[Shape, float]]:
    counts: dict[Shape, int] = {}
    for pod in pods:
        counts[pod.shape] = counts.get(pod.shape, 0) + 1
    order = sorted(
        counts, key=lambda shape: (counts[shape], shape.cpu, shape.milli, shape.devices, shape.kinds), reverse=True
    )
    typical: list[tuple[Shape, float]] = []
    covered = 0
    for shape in order:
        if covered >= COMMON * len(pods):
            break
        typical.append((shape, counts[shape]))
        covered += counts[shape]
    return [(shape, count / covered) for shape, count in typical]
