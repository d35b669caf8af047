"""./run bench planner: how fast the planner decides, on clusters from 1,000 to 125,000 nodes of eight devices.

Each figure is the best of a few runs in this process (the machine may be busy), its limit beside it. `--json` prints
one object as the last line. The pending jobs have the sizes of a public training cluster's (mostly one device, few of
many), and there are gangs of up to 4,096 devices among them.
"""

import argparse
import json
import math
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from controller.records import AttemptRecord, Change, JobRecord, NodeRecord, Record, WorkerRecord
from controller.scheduling.index import ClusterIndex, apply, build
from controller.scheduling.planner import plan
from controller.scheduling.types import Plan
from muster.launch import LaunchTemplate
from muster.protocol import Device
from muster.states import AttemptPhase, JobPhase, WorkerPhase

LEVELS = ("zone", "block", "leaf")
DEVICES = tuple(Device(index=index, type="h100", virtual=True) for index in range(8))
TEMPLATE = LaunchTemplate(framework="command", processes=(("true",),))
SIZES = ((1, 1), *(((1, 1),) * 12), (1, 2), (1, 2), (1, 4), (1, 4), (1, 8), (1, 8), (2, 8), (4, 8))
"""(workers, devices each) as often as they come."""

LIMITS = {
    "cold_cycle_12500_s": 1.0,
    "change_cycle_p99_ms": 20.0,
    "gang_4096_ms": 50.0,
    "no_full_ms": 50.0,
    "no_fragmented_ms": 50.0,
    "preempt_700_ms": 100.0,
    "placements_per_s": 2000.0,
    "slurm_mix_4096_s": 0.78,
    "cold_cycle_125000_s": 15.0,
    "growth_exponent": 1.2,
    "peak_rss_mb": 1024.0,
}


def nodes(count: int, leaf: int = 32, leaves: int = 16, blocks: int = 8) -> list[NodeRecord]:
    """Leaves of 32 nodes, 16 leaves a block, 8 blocks a zone."""
    made = []
    for number in range(count):
        path = (number // (leaf * leaves * blocks), number // (leaf * leaves), number // leaf)
        labels = {f"muster.dev/{level}": f"{level[0]}{part:05}" for level, part in zip(LEVELS, path, strict=True)}
        name = f"n{number:06}"
        made.append(
            NodeRecord(name=name, uid=name, labels=labels, cpu_milli=128_000, memory=2**41, devices=DEVICES, host=name)
        )
    return made


def job(name: str, workers: int, devices: int, at: float, **spec: Any) -> JobRecord:
    wish = {
        "workers": workers,
        "accelerators": [{"type": "h100", "count": devices}],
        "cpu": str(devices),
        "memory": f"{devices}Gi",
        **spec,
    }
    return JobRecord(uid=name, namespace="default", name=name, spec=wish, queued_at=at)


def running(record: JobRecord, places: list[tuple[str, tuple[int, ...]]]) -> list[Record]:
    """The records of a job that runs there."""
    attempt = AttemptRecord(
        uid=f"{record.uid}-1",
        job_uid=record.uid,
        namespace="default",
        job_name=record.name,
        scope="gang",
        number=1,
        epoch=1,
        rendezvous="r",
        phase=AttemptPhase.RUNNING,
        running_at=1.0,
    )
    workers = [
        WorkerRecord(
            uid=f"{attempt.uid}-{index}",
            attempt_uid=attempt.uid,
            job_uid=record.uid,
            namespace="default",
            role="worker",
            index=index,
            node=node,
            host=node,
            epoch=1,
            devices=devices,
            cpu_milli=1000 * len(devices),
            memory=2**30 * len(devices),
            template=TEMPLATE,
            phase=WorkerPhase.RUNNING,
        )
        for index, (node, devices) in enumerate(places)
    ]
    return [replace(record, phase=JobPhase.RUNNING), attempt, *workers]


def pending(count: int) -> list[JobRecord]:
    jobs = []
    for number in range(count):
        workers, devices = SIZES[number * 7919 % len(SIZES)]
        jobs.append(job(f"j{number:06}", workers, devices, float(number)))
    gangs = [
        job(f"gang{size}", size, 8, -1.0, topology={"required": "zone"}) for size in (8, 16, 32, 64, 128, 256, 512)
    ]
    return [*jobs, *gangs]


def best(act: Callable[[], object], times: int = 3) -> float:
    """Seconds of the fastest run."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        taken.append(time.perf_counter() - began)
    return min(taken)


def committed(index: ClusterIndex, decided: Plan) -> list[Record]:
    """The records with which a plan is true."""
    records: list[Record] = []
    for group in decided.groups:
        places = [(worker.node, worker.devices) for worker in group.start.workers]
        records += running(index.jobs[group.start.job_uid], places)
    return records


def changes(index: ClusterIndex, records: list[Record]) -> list[Change]:
    first = index.revision + 1
    return [
        Change(
            revision=first + number,
            kind=type(record).__name__.removesuffix("Record"),
            uid=record.uid,
            record=replace(record, revision=first + number),
        )
        for number, record in enumerate(records)
    ]


def cold(count: int, jobs: int) -> tuple[float, float, ClusterIndex, Plan]:
    """(seconds to build the index, seconds of the first plan, both)."""
    records: list[Record] = [*nodes(count), *pending(jobs)]
    began = time.perf_counter()
    index = build(records, levels=LEVELS)
    built = time.perf_counter() - began
    seconds = best(lambda: plan(index, 10.0), 2)
    return built, seconds, index, plan(index, 10.0)


def single(count: int, fill: Callable[[int], int], wanted: JobRecord) -> float:
    """Milliseconds of a plan for one job on a cluster of which so many devices of each node are taken."""
    machines = nodes(count)
    records: list[Record] = [*machines, wanted]
    for number, node in enumerate(machines):
        if taken := fill(number):
            busy = job(f"busy{number}", 1, taken, 0.0, preemption={"allowed": False})
            records += running(busy, [(node.name, tuple(range(taken)))])
    index = build(records, levels=LEVELS)
    return best(lambda: plan(index, 10.0)) * 1000


def change_p99(index: ClusterIndex, decided: Plan) -> float:
    """Milliseconds from one change to the plan after it, while the cluster is full and jobs wait."""
    index = apply(index, changes(index, committed(index, decided)))
    taken = []
    for number in range(60):
        fresh = job(f"new{number}", 1, 1 + number % 8, 100.0 + number)
        began = time.perf_counter()
        index = apply(index, changes(index, [fresh]))
        plan(index, 200.0 + number)
        taken.append(time.perf_counter() - began)
    return sorted(taken)[int(len(taken) * 0.99) - 1] * 1000


def preemption() -> float:
    """A gang of 64 nodes among 700 victims on 2,000 full nodes."""
    machines = nodes(2000)
    records: list[Record] = [*machines, job("high", 64, 8, 5.0, priorityClass="high", topology={"required": "block"})]
    for number, node in enumerate(machines):
        wish = {"priorityClass": "low"} if number < 700 else {"preemption": {"allowed": False}}
        records += running(job(f"busy{number}", 1, 8, 0.0, **wish), [(node.name, tuple(range(8)))])
    index = build(records, levels=LEVELS)
    assert plan(index, 10.0).evictions
    return best(lambda: plan(index, 10.0)) * 1000


def placements() -> float:
    """Placements a second: 15,000 jobs through 640 nodes, everything that fits at once, then it ends, and so on."""
    sizes = [(1, 1)] * 10 + [(1, 4)] * 3 + [(2, 8), (4, 8)]
    jobs = [job(f"j{n:05}", *sizes[n % len(sizes)], float(n)) for n in range(15_000)]
    index = build([*nodes(640, 64), *jobs], levels=LEVELS)
    began, placed = time.perf_counter(), 0
    while placed < len(jobs):
        decided = plan(index, 10.0)
        records = committed(index, decided)
        placed += len(decided.groups)
        if not decided.groups:
            raise AssertionError("nothing starts on an empty cluster")
        index = apply(index, changes(index, records))
        index = apply(index, changes(index, list(_ended(records))))
    return placed / (time.perf_counter() - began)


def _ended(records: list[Record]) -> Iterator[Record]:
    for record in records:
        match record:
            case JobRecord():
                yield replace(record, phase=JobPhase.SUCCEEDED)
            case AttemptRecord():
                yield replace(record, phase=AttemptPhase.ENDED)
            case WorkerRecord():
                yield replace(record, phase=WorkerPhase.EXITED)


def slurm_mix() -> float:
    """Seconds of one plan: 2,000 jobs of 1 to 256 whole nodes released at once on 4,096 nodes."""
    sizes = (1, 1, 2, 2, 4, 4, 8, 8, 16, 32, 64, 128, 256)
    jobs = [job(f"j{n:05}", sizes[n * 7919 % len(sizes)], 8, float(n)) for n in range(2000)]
    index = build([*nodes(4096), *jobs], levels=LEVELS)
    return best(lambda: plan(index, 10.0), 2)


def exponent(points: list[tuple[int, float]]) -> float:
    """The slope of log(seconds) over log(nodes)."""
    logs = [(math.log(size), math.log(seconds)) for size, seconds in points]
    middle = (sum(x for x, _ in logs) / len(logs), sum(y for _, y in logs) / len(logs))
    above = sum((x - middle[0]) * (y - middle[1]) for x, y in logs)
    return above / sum((x - middle[0]) ** 2 for x, _ in logs)


def peak_rss_mb() -> float:
    """Of a process of its own that builds and plans 12,500 nodes."""
    command = [sys.executable, __file__, "--memory"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def measure(say: Callable[[str], None]) -> dict[str, Any]:
    found: dict[str, Any] = {"machine": platform.machine(), "python": platform.python_version()}
    points = []
    for count in (1000, 4000, 12_500, 50_000, 125_000):
        built, seconds, index, decided = cold(count, 10_000 * count // 12_500)
        points.append((count, seconds))
        say(f"{count:>7} nodes, {len(index.gangs)} jobs: index {built:.2f} s, cold cycle {seconds:.3f} s")
        if count == 12_500:
            found |= {"index_12500_s": built, "cold_cycle_12500_s": seconds}
            found["change_cycle_p99_ms"] = change_p99(index, decided)
    found["cold_cycle_125000_s"] = points[-1][1]
    found["growth_exponent"] = exponent(points)
    big = job("big", 512, 8, 5.0)
    found["gang_4096_ms"] = single(12_500, lambda number: number % 3, big)
    found["no_full_ms"] = single(12_500, lambda _: 8, big)
    found["no_fragmented_ms"] = single(12_500, lambda number: 1 + number % 7, big)
    found["preempt_700_ms"] = preemption()
    found["placements_per_s"] = placements()
    found["slurm_mix_4096_s"] = slurm_mix()
    found["peak_rss_mb"] = peak_rss_mb()
    return found


def main() -> int:
    options = argparse.ArgumentParser(prog="./run bench planner", description=__doc__)
    options.add_argument("--json", action="store_true", help="one JSON object as the last line")
    options.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.memory:
        cold(12_500, 10_000)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return 0
    found = measure(lambda text: print(text, file=sys.stderr, flush=True))
    if chosen.json:
        print(
            json.dumps({name: round(value, 4) if isinstance(value, float) else value for name, value in found.items()})
        )
        return 0
    for name, limit in LIMITS.items():
        print(f"{name:<24} {found[name]:>12.3f}   limit {limit:g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
