"""Clusters and jobs for `./run bench planner`: nodes of eight devices in zones, blocks and leaves, and pending jobs of real
sizes."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

from msgspec.structs import replace

from benchmarks.common import BadInput
from controller.records import AttemptRecord, Change, JobRecord, NodeRecord, Record, WorkerRecord
from controller.scheduling.index import ClusterIndex
from controller.scheduling.types import Plan
from muster.launch import LaunchTemplate
from muster.protocol import Device
from muster.states import AttemptPhase, JobPhase, WorkerPhase

LEVELS = ("zone", "block", "leaf")
KIND = "h100"
EACH = 8
DEVICES = tuple(Device(index=index, type=KIND, virtual=True) for index in range(EACH))
TEMPLATE = LaunchTemplate(framework="command", processes=(("true",),))

PHILLY = {1: 76627, 2: 1818, 4: 1870, 8: 1643, 12: 7, 16: 199, 24: 7, 32: 67, 64: 6, 128: 3}
"""How often jobs of the public Philly trace (Microsoft, CC-BY-4.0) asked for so many devices."""

GANGS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Nodes of the gangs among the pending jobs: up to 4,096 devices."""


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
        "accelerators": [{"type": KIND, "count": devices}],
        "cpu": str(devices),
        "memory": f"{devices}Gi",
        **spec,
    }
    return JobRecord(uid=name, namespace="default", name=name, spec=wish, queued_at=at)


def real_sizes(count: int, data: Path | None = None) -> list[int]:
    """Devices of so many jobs: the trace's own first ones, or as often as they come there, well mixed."""
    if data is not None:
        path = data / "philly.csv"
        if not path.is_file():
            raise BadInput(f"{path} is not there: it comes with petuum/adaptdl, branch osdi21-artifact")
        with path.open(newline="") as file:
            sizes = [int(row["num_gpus"]) for row, _ in zip(csv.DictReader(file), range(count), strict=False)]
        return [sizes[number % len(sizes)] for number in range(count)]
    total, bounds, reached = sum(PHILLY.values()), [], 0
    for size, times in PHILLY.items():
        reached += times
        bounds.append((reached, size))
    draws = ((number * 7_368_787 + 12_345) % total for number in range(count))
    return [next(size for bound, size in bounds if draw < bound) for draw in draws]


def shaped(size: int) -> tuple[int, int]:
    """(workers, devices each) of a job of so many devices: whole nodes where it is more than one."""
    if size <= EACH:
        return 1, size
    workers = -(-size // EACH)
    return workers, -(-size // workers)


def pending(count: int, data: Path | None = None, variety: int = 1) -> list[JobRecord]:
    """Jobs of real sizes, and gangs among them; `variety`: so many different needs of CPU and memory."""
    jobs = []
    for number, size in enumerate(real_sizes(count, data)):
        workers, devices = shaped(size)
        more = number * 31 % variety
        wish = {"cpu": f"{devices * (1000 + 50 * more)}m", "memory": f"{devices * (1024 + 64 * more)}Mi"}
        jobs.append(job(f"j{number:06}", workers, devices, float(number), **wish))
    every = max(1, count // len(GANGS))
    gangs = [
        job(f"gang{size:03}", size, EACH, every * place + 0.5, topology={"required": "zone"})
        for place, size in enumerate(GANGS)
    ]
    return [*jobs, *gangs]


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


def busy(machines: list[NodeRecord], free: int = 0) -> list[Record]:
    """Jobs of real sizes on every node, one beside the other; on every `free`-th node (0: nowhere) the last is missing."""
    records: list[Record] = []
    sizes = iter(real_sizes(len(machines) * EACH))
    for number, node in enumerate(machines):
        first = 0
        while first < EACH:
            size = min(next(sizes), EACH - first)
            last = first + size == EACH
            if not (last and free and number % free == 0):
                one = job(f"busy{number:06}-{first}", 1, size, 0.0)
                records += running(one, [(node.name, tuple(range(first, first + size)))])
            first += size
    return records


def committed(index: ClusterIndex, decided: Plan) -> list[Record]:
    """The records with which a plan is true."""
    records: list[Record] = []
    for group in decided.groups:
        places = [(worker.node, worker.devices) for worker in group.start.workers]
        records += running(index.jobs[group.start.job_uid], places)
    return records


def ended(records: list[Record]) -> Iterator[Record]:
    """The same after their end."""
    for record in records:
        match record:
            case JobRecord():
                yield replace(record, phase=JobPhase.SUCCEEDED)
            case AttemptRecord():
                yield replace(record, phase=AttemptPhase.ENDED)
            case WorkerRecord():
                yield replace(record, phase=WorkerPhase.EXITED, released=True)


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


SLURM = ((1, 160), (2, 60), (4, 40), (8, 20), (16, 8), (32, 4), (64, 3), (128, 1), (256, 1))
"""(nodes, how often) of the jobs of Slurm's mix."""


def slurm_jobs(count: int) -> list[JobRecord]:
    """Whole nodes: from 1 to 256 of them."""
    sizes = [size for size, times in SLURM for _ in range(times)]
    return [job(f"j{n:05}", sizes[n * 7919 % len(sizes)], EACH, float(n)) for n in range(count)]


def slurm_half_full(count: int) -> list[Record]:
    """Leaves of 16 nodes, 16 leaves a block; every other node or so is taken, wherever it lies."""
    machines = nodes(count, 16, 16, 4)
    records: list[Record] = [*machines]
    for number, node in enumerate(machines):
        if crc32(node.name.encode()) % 2:
            records += running(job(f"busy{number}", 1, EACH, 0.0), [(node.name, tuple(range(EACH)))])
    return records


def spans(index: ClusterIndex, decided: Plan) -> int:
    """Leaves spanned beyond the fewest that could hold each gang of whole nodes when its turn came."""
    level, over = index.fabric.levels[-2], 0
    free = index.free.kind(KIND) >= EACH
    for group in decided.groups:
        places = [index.fabric.positions[worker.node] for worker in group.start.workers]
        left, least = len(places), 0
        for room in sorted(level.sums(free.astype(int)).tolist(), reverse=True):
            if left <= 0:
                break
            left, least = left - room, least + 1
        over += len({int(level.of[place]) for place in places}) - least
        free[places] = False
    return over
