"""How fast the profiled training programs of the Pollux set-up run, and how much work they need.

Throughput is measured data: exact placement (up to rotation), linear in the local batch; any other placement is
interpolated in (nodes, replicas, local batch). Times are seconds, progress is statistically equal iterations.
"""

import math
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from scipy.interpolate import LinearNDInterpolator

from benchmarks.common import BadInput, number, table_of

EPOCHS = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
MOST_LOCAL = {"yolov3": 8}
SLACK = 1e-8
Placement = tuple[int, ...]


class Application:
    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.epochs = EPOCHS[self.name]
        self.statistics = {}
        for path in folder.glob("validation-*.csv"):
            self.statistics[int(path.stem.split("-")[1])] = _columns(path, ("progress", "grad_sqr", "grad_var"))
        if not self.statistics:
            raise BadInput(f"{folder}: no validation-*.csv in it")
        self.batches = sorted(self.statistics)
        self.progress = np.min([self.statistics[batch][: self.epochs, 0] for batch in self.batches], axis=0)
        rows = table_of(folder / "placements.csv", ("placement", "local_bsz", "step_time", "sync_time"))
        self.measured: dict[Placement, list[tuple[float, float, float]]] = {}
        for row in rows:
            times = (float(row["local_bsz"]), float(row["step_time"]), float(row["sync_time"]))
            self.measured.setdefault(tuple(map(int, row["placement"])), []).append(times)
        self.scaled = _columns(
            folder / "scalability.csv", ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
        )
        locals_ = [int(row["local_bsz"]) for row in rows]
        self.least_local, self.most_local = min(locals_), MOST_LOCAL.get(self.name, max(locals_))
        self.first_batch, self.most_batch = self.batches[0], self.batches[-1]
        self.times = lru_cache(maxsize=None)(self._times)
        self.gain = lru_cache(maxsize=None)(self._gain)

    def split(self, batch: int, replicas: int) -> tuple[int, int]:
        """(local batch, further accumulation steps) with which `replicas` make a global batch of `batch`."""
        local = math.ceil(batch / replicas - SLACK)
        steps = math.ceil(local / self.most_local - SLACK) - 1
        if replicas == 1 and batch > self.first_batch:
            steps = max(1, steps)
        atomic = math.ceil(local / (steps + 1) - SLACK)
        return min(atomic, self.most_batch // (replicas * (steps + 1))), steps

    def goodput(self, placement: Placement, local: int, steps: int, epoch: int) -> float:
        """Progress a second in this epoch."""
        step, sync = self.times(placement, local)
        return self.gain(sum(placement) * local * (steps + 1), epoch) / (step + steps * (step - sync))

    def throughput(self, placement: Placement, batch: int) -> float | None:
        """Samples a second at a fixed global batch; None where it was never profiled."""
        replicas = sum(placement)
        local, steps = self.split(batch, replicas)
        if local < self.least_local or replicas * local * (steps + 1) < self.first_batch:
            return None
        step, sync = self.times(placement, local)
        rate = replicas * local * (steps + 1) / (step + steps * (step - sync))
        return rate if rate > 0 else None  # NaN outside of the profile

    def _times(self, placement: Placement, local: int) -> tuple[float, float]:
        placement = min(placement[turn:] + placement[:turn] for turn in range(len(placement)))
        if placement in self.measured:
            table = np.array(self.measured[placement])
            if not table[0, 0] <= local <= table[-1, 0]:
                return math.nan, math.nan
            return float(np.interp(local, table[:, 0], table[:, 1])), float(np.interp(local, table[:, 0], table[:, 2]))
        point = [min(len(placement), 16), sum(placement), local]
        step, sync = self._surface(point)[0]
        return float(step), float(sync)

    @cached_property
    def _surface(self) -> LinearNDInterpolator:
        groups: dict[tuple[int, int, float], list[tuple[float, float]]] = {}
        for placement, rows in self.measured.items():
            for local, step, sync in rows:
                groups.setdefault((len(placement), sum(placement), local), []).append((step, sync))
        means = np.array([[*key, *np.mean(groups[key], axis=0)] for key in sorted(groups)])
        points = np.vstack([means, self.scaled])
        return LinearNDInterpolator(points[:, :3], points[:, 3:])

    def _gain(self, batch: int, epoch: int) -> float:
        """How much progress one iteration of this batch makes, counted in iterations of the smallest."""
        lower = max(known for known in self.batches if known <= batch)
        upper = min(known for known in self.batches if known >= batch)
        share = 0.0 if lower == upper else (batch - lower) / (upper - lower)
        square, variance = (1 - share) * self.statistics[lower][epoch, 1:] + share * self.statistics[upper][epoch, 1:]
        return float((variance + square) / (variance / (batch / self.first_batch) + square))


def load(folder: Path) -> dict[str, Application]:
    return {name: Application(folder / name) for name in EPOCHS}


def _columns(path: Path, names: tuple[str, ...]) -> np.ndarray:
    rows = table_of(path, names)
    return np.array([[number(path, line, row, name, -math.inf) for name in names] for line, row in enumerate(rows, 2)])
