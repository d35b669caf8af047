"""./run bench planner: how fast the planner decides, on clusters from 1,000 to 125,000 nodes of eight devices.

Wall seconds and, beside them, the seconds that the process had a processor (on a busy machine the second is the truer
one). Every cold figure is that of a plan over an index of which nothing is remembered. `--json` prints one object as the last line.
The pending jobs have the sizes of a public training cluster's (`--data DIR`: its own first ones, from philly.csv), with
gangs of up to 4,096 devices among them.
"""

import argparse
import gc
import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from benchmarks.common import guarded
from benchmarks.planner_input import (
    EACH,
    LEVELS,
    busy,
    changes,
    committed,
    ended,
    job,
    nodes,
    pending,
    running,
    slurm_half_full,
    slurm_jobs,
    spans,
)
from controller.records import NodeRecord, Record
from controller.scheduling.index import ClusterIndex, apply, build
from controller.scheduling.planner import plan
from controller.scheduling.types import Plan

LIMITS = {
    "cold_cycle_12500_s": 1.0,
    "change_cycle_p99_ms": 20.0,
    "gang_4096_ms": 50.0,
    "no_full_ms": 50.0,
    "no_fragmented_ms": 50.0,
    "preempt_700_ms": 100.0,
    "placements_per_s": 2000.0,
    "slurm_mix_4096_s": 0.78,
    "slurm_over_minimum": 0.0,
    "cold_cycle_125000_s": 15.0,
    "growth_exponent": 1.2,
    "peak_rss_mb": 1024.0,
}
SIZES = (1000, 4000, 12_500, 50_000, 125_000)
JOBS = 10_000  # on 12,500 nodes; in proportion on others
CHANGES = 300

Made = TypeVar("Made")


@dataclass(frozen=True)
class Took:
    """Seconds on the wall, and of a processor."""

    wall: float
    cpu: float


def timed(act: Callable[[], Made]) -> tuple[Took, Made]:
    wall, cpu = time.perf_counter(), time.process_time()
    made = act()
    return Took(time.perf_counter() - wall, time.process_time() - cpu), made


def settled(act: Callable[[], Made]) -> Made:
    """Make what is measured from, and let the garbage collector leave it alone, as the controller's process does."""
    gc.unfreeze()
    made = act()
    gc.collect()
    gc.freeze()
    return made


def cold_plan(records: list[Record], times: int = 1) -> tuple[Took, Took, ClusterIndex, Plan]:
    """(the index, the fastest first plan over a fresh one, both made)."""
    best: Took | None = None
    for _ in range(times):
        built, index = settled(lambda: timed(lambda: build(records, levels=LEVELS)))
        took, decided = timed(lambda index=index: plan(index, 10.0))  # type: ignore[misc]
        if best is None or took.wall < best.wall:
            best = took
    assert best is not None
    return built, best, index, decided


class Bench:
    """What has been measured so far."""

    def __init__(self, data: Path | None) -> None:
        self.data = data
        self.found: dict[str, Any] = {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "python": platform.python_version(),
            "load_average": round(os.getloadavg()[0], 2),
        }

    def note(self, name: str, took: Took, scale: float = 1.0) -> None:
        self.found[name] = took.wall * scale
        stem, _, unit = name.rpartition("_")
        self.found[f"{stem}_cpu_{unit}"] = took.cpu * scale

    def sizes(self) -> None:
        """Cold cycles from small to large; at 12,500 nodes the slower of an empty and of a nearly full cluster counts."""
        points = []
        for count in SIZES:
            machines = nodes(count)
            records: list[Record] = [*machines, *pending(JOBS * count // 12_500, self.data)]
            built, took, index, decided = cold_plan(records, 2 if count <= 12_500 else 1)
            points.append((count, took.wall))
            say(
                f"{count:>7} nodes, {len(index.gangs)} jobs: index {built.wall:.2f} s, cold cycle {took.wall:.3f} s"
                f" ({took.cpu:.3f} s CPU), {len(decided.groups)} start"
            )
            if count == 12_500:
                self.found |= {"index_12500_s": built.wall, "cold_cycle_12500_empty_s": took.wall}
                self._busy(machines, took)
            if count == SIZES[-1]:
                self.note("cold_cycle_125000_s", took)
                self.found["index_125000_s"] = built.wall
        self.found["growth_exponent"] = exponent(points)

    def _busy(self, machines: list[NodeRecord], empty: Took) -> None:
        jobs = pending(JOBS, self.data)
        built, took, _, decided = cold_plan([*machines, *busy(machines, 4), *jobs], 2)
        say(
            f"        the same, nearly full: index {built.wall:.2f} s, cold cycle {took.wall:.3f} s ({took.cpu:.3f} s CPU),"
            f" {len(decided.groups)} start, {len(decided.waits)} wait"
        )
        self.note("cold_cycle_12500_s", max(empty, took, key=lambda one: one.wall))
        self.found["cold_cycle_12500_busy_s"] = took.wall
        varied = cold_plan([*machines, *pending(JOBS, self.data, 64)], 1)[1]
        say(
            f"        with 64 needs of CPU and memory for each size: cold cycle {varied.wall:.3f} s ({varied.cpu:.3f} s CPU)"
        )
        self.found["cold_cycle_12500_varied_s"] = varied.wall
        self._changes(machines)

    def _changes(self, machines: list[NodeRecord]) -> None:
        """From one change to the end of the plan after it, on a full cluster before which 10,000 jobs wait."""
        records: list[Record] = [*machines, *busy(machines), *pending(JOBS, self.data)]
        index = settled(lambda: build(records, levels=LEVELS))
        plan(index, 10.0)
        taken = []
        for number in range(CHANGES):
            world = one_change(index, number)

            def cycle(index: ClusterIndex = index, world: list[Record] = world, number: int = number) -> ClusterIndex:
                after = apply(index, changes(index, world))
                decided = plan(after, 20.0 + number)
                return apply(after, changes(after, committed(after, decided))) if decided.groups else after

            took, index = timed(cycle)
            taken.append(took)
        walls, cpus = sorted(one.wall for one in taken), sorted(one.cpu for one in taken)
        at = math.ceil(len(taken) * 0.99) - 1
        self.note("change_cycle_p99_ms", Took(walls[at], cpus[at]), 1000)
        self.found["change_cycle_p50_ms"] = walls[len(walls) // 2] * 1000
        say(
            f"        after one change: p50 {walls[len(walls) // 2] * 1000:.1f} ms, p99 {walls[at] * 1000:.1f} ms,"
            f" most {walls[-1] * 1000:.1f} ms (CPU p99 {cpus[at] * 1000:.1f} ms), {len(index.order)} wait"
        )

    def gangs(self) -> None:
        big = job("big", 512, EACH, 5.0)
        for name, fill in (
            ("gang_4096_ms", lambda number: number % 3),
            ("no_full_ms", lambda _: EACH),
            ("no_fragmented_ms", lambda number: 1 + number % 7),
        ):
            took, decided = single(12_500, fill, big)
            self.note(name, took, 1000)
            told = f"{decided.waits[0].code}: {decided.waits[0].message}" if decided.waits else "starts"
            say(f"{name}: {took.wall * 1000:.1f} ms ({took.cpu * 1000:.1f} ms CPU): {told[:120]}")

    def preemption(self) -> None:
        """A gang of 64 nodes among 700 victims on 2,000 full nodes."""
        machines = nodes(2000)
        records: list[Record] = [
            *machines,
            job("high", 64, 8, 5.0, priorityClass="high", topology={"required": "block"}),
        ]
        for number, node in enumerate(machines):
            wish = {"priorityClass": "low"} if number < 700 else {"preemption": {"allowed": False}}
            records += running(job(f"busy{number}", 1, 8, 0.0, **wish), [(node.name, tuple(range(8)))])
        _, took, _, decided = cold_plan(records, 3)
        assert len(decided.evictions[0].victims) == 64
        self.note("preempt_700_ms", took, 1000)
        say(f"preemption among 700 victims on 2,000 nodes: {took.wall * 1000:.1f} ms ({took.cpu * 1000:.1f} ms CPU)")

    def placements(self) -> None:
        """15,000 jobs through 640 nodes: everything that fits starts at once, then it ends, and so on."""
        sizes = [(1, 1)] * 10 + [(1, 4)] * 3 + [(2, 8), (4, 8)]
        jobs = [job(f"j{n:05}", *sizes[n % len(sizes)], float(n)) for n in range(15_000)]
        index = settled(lambda: build([*nodes(640, 64), *jobs], levels=LEVELS))
        took, placed = timed(lambda: through(index, len(jobs)))
        self.found |= {"placements_per_s": placed / took.wall, "placements_per_cpu_s": placed / took.cpu}
        say(
            f"15,000 jobs through 640 nodes: {placed / took.wall:.0f} placements a second ({placed / took.cpu:.0f} of CPU)"
        )

    def slurm(self) -> None:
        """Slurm's mix: 2,000 jobs of 1 to 256 whole nodes released at once; and a half-full, fragmented cluster, where the
        leaves that gangs span are compared with the fewest that can be."""
        _, took, index, decided = cold_plan([*nodes(4096), *slurm_jobs(2000)], 2)
        over = spans(index, decided)
        self.note("slurm_mix_4096_s", took)
        say(
            f"Slurm's mix: {took.wall:.3f} s ({took.cpu:.3f} s CPU), {len(decided.groups)} start, {over} leaves over the minimum"
        )
        told = []
        for size in (16, 32, 64):
            index = build([*slurm_half_full(1024), job("gang", size, EACH, 5.0)], levels=LEVELS)
            decided = plan(index, 10.0)
            level = index.fabric.levels[-2]
            places = (index.fabric.positions[worker.node] for worker in decided.groups[0].start.workers)
            told.append(len({int(level.of[place]) for place in places}))
            over += spans(index, decided)
        self.found |= {"slurm_over_minimum": over, "slurm_leaves_16_32_64": told}
        say(f"half full: gangs of 16, 32, 64 nodes span {told} leaves")

    def memory(self) -> None:
        """Of a process of its own that builds and plans 12,500 nodes, empty and full."""
        command = [sys.executable, __file__, "--memory"]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.found["peak_rss_mb"] = float(told.split()[-1])
        say(f"peak memory at 12,500 nodes: {self.found['peak_rss_mb']:.0f} MB")


def single(count: int, fill: Callable[[int], int], wanted: Record) -> tuple[Took, Plan]:
    """A first plan for one job on a cluster of which so many devices of each node are taken."""
    machines = nodes(count)
    records: list[Record] = [*machines, wanted]
    for number, node in enumerate(machines):
        if taken := fill(number):
            one = job(f"busy{number}", 1, taken, 0.0, preemption={"allowed": False})
            records += running(one, [(node.name, tuple(range(taken)))])
    _, took, _, decided = cold_plan(records, 3)
    return took, decided


def one_change(index: ClusterIndex, number: int) -> list[Record]:
    """By turns: a job comes, one ends, one is told something, a node takes no more work, and takes it again."""
    match number % 5:
        case 0:
            return [job(f"new{number}", 1, 1 + number // 5 % EACH, 100.0 + number)]
        case 1:
            crew = next(iter(index.crews.values()))
            gone: list[Record] = [index.jobs[crew.request.job_uid], crew.attempt, *crew.workers]
            return list(ended(gone))
        case 2:
            waiting = index.order[number % len(index.order)].request
            return [replace(index.jobs[waiting.job_uid], message=f"told {number}")]
        case _:
            node = index.nodes[index.fabric.nodes[number // 5]]
            return [replace(node, cordoned=not node.cordoned)]


def through(index: ClusterIndex, count: int) -> int:
    placed = 0
    while placed < count:
        decided = plan(index, 10.0)
        if not decided.groups:
            raise AssertionError("nothing starts on an empty cluster")
        records = committed(index, decided)
        placed += len(decided.groups)
        index = apply(index, changes(index, records))
        index = apply(index, changes(index, list(ended(records))))
    return placed


def exponent(points: list[tuple[int, float]]) -> float:
    """The slope of log(seconds) over log(nodes)."""
    logs = [(math.log(size), math.log(seconds)) for size, seconds in points]
    middle = (sum(x for x, _ in logs) / len(logs), sum(y for _, y in logs) / len(logs))
    above = sum((x - middle[0]) * (y - middle[1]) for x, y in logs)
    return above / sum((x - middle[0]) ** 2 for x, _ in logs)


def remember() -> None:
    """What `peak_rss_mb` looks at."""
    machines = nodes(12_500)
    cold_plan([*machines, *pending(JOBS)])
    cold_plan([*machines, *busy(machines), *pending(JOBS)])
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def steps(bench: Bench) -> Iterator[tuple[str, Callable[[], None]]]:
    yield "gangs", bench.gangs
    yield "preemption", bench.preemption
    yield "placements", bench.placements
    yield "slurm", bench.slurm
    yield "memory", bench.memory
    yield "sizes", bench.sizes


def main() -> None:
    options = argparse.ArgumentParser(prog="./run bench planner", description=__doc__)
    options.add_argument("--json", action="store_true", help="one JSON object as the last line")
    options.add_argument("--data", type=Path, help="the folder with philly.csv: its own first jobs")
    options.add_argument("--only", choices=[name for name, _ in steps(Bench(None))], help="a part alone")
    options.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.memory:
        remember()
        return
    bench = Bench(chosen.data)
    for name, step in steps(bench):
        if chosen.only in (None, name):
            step()
    found = {name: round(value, 4) if isinstance(value, float) else value for name, value in bench.found.items()}
    if chosen.json:
        print(json.dumps(found))
        return
    for name, limit in LIMITS.items():
        if name in found:
            print(f"{name:<24} {found[name]:>12.3f}   limit {limit:g}")


if __name__ == "__main__":
    guarded(main)
