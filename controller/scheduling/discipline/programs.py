"""What a job runs, by name, and how much service it has had: what time-sharing learns from.

Runs of one program are alike. Its name is the label `muster.dev/program`, else the file or module that its command starts,
with its namespace; an inline script has none. Service is device-seconds; of a job whose throughput by size is known it is what
the same work would take at the size that it asked for.
"""

import re
from bisect import insort
from collections.abc import Mapping, Sequence
from typing import Any, Final

from controller.records import JobRecord, ProgramRecord

LABEL: Final = "muster.dev/program"
KEPT: Final = 64
"""Sizes that are kept of one program: small rows, and enough to know how its runs vary."""

_STARTER: Final = re.compile(
    r"python[\d.]*|pypy[\d.]*|torchrun|torch\.distributed\.(run|launch)|accelerate|deepspeed|launch|run|mpirun|mpiexec|srun"
    r"|uv|env|nice|exec|time|nohup|(ba|da|z)?sh"
)
"""What starts a program, and is none itself."""


def program_of(job: JobRecord) -> str:
    """Empty when nobody knows."""
    if named := job.labels.get(LABEL):
        return named
    for word in job.spec.get("command") or ():
        name: str = word.rpartition("/")[2]
        if word == "-c":
            return ""
        if name and not word.startswith("-") and "=" not in word and not _STARTER.fullmatch(name):
            return name
    return ""


def service(spec: Mapping[str, Any], workers: int, devices: int, seconds: float) -> float:
    """Device-seconds of so many workers with so many devices in all; a worker without devices counts as one."""
    held = devices or workers
    speeds = speeds_of(spec)
    if speeds is None or not workers:
        return held * max(0.0, seconds)
    asked: int = spec.get("workers", 1)
    speed = speeds[min(workers, len(speeds) - 1)]
    return held / workers * asked * speed * max(0.0, seconds)


def speeds_of(spec: Mapping[str, Any]) -> tuple[float, ...] | None:
    """Throughput by the number of workers, relative to that which the job asks for: from 0 up to the largest that it
    allows; None where it is not known. Between two known sizes it is on the line between them."""
    table = spec.get("throughput")
    if not table:
        return None
    known = sorted((int(workers), float(rate)) for workers, rate in table.items())
    asked: int = spec.get("workers", 1)
    most = max(asked, spec.get("maxWorkers") or asked)
    base = _between(known, asked)
    return (0.0, *(_between(known, workers) / base for workers in range(1, most + 1)))


def learned(known: ProgramRecord | None, job: JobRecord, size: float) -> ProgramRecord | None:
    """The program's record after a completed run of this size; None for a job whose program has no name."""
    program = program_of(job)
    if not program:
        return None
    sizes = list(known.sizes) if known else []
    if len(sizes) >= KEPT:
        del sizes[len(sizes) // 2 if size in (sizes[0], sizes[-1]) else _nearest(sizes, size)]
    insort(sizes, size)
    return ProgramRecord(
        uid=uid_of(job.namespace, program),
        namespace=job.namespace,
        name=program,
        sizes=tuple(sizes),
        runs=(known.runs if known else 0) + 1,
    )


def uid_of(namespace: str, program: str) -> str:
    return f"{namespace}/{program}"


def _nearest(sizes: Sequence[float], size: float) -> int:
    """What a new size stands for as well: the nearest one goes, so that the spread stays."""
    return min(range(len(sizes)), key=lambda place: abs(sizes[place] - size))


def _between(known: Sequence[tuple[int, float]], workers: int) -> float:
    below = [entry for entry in known if entry[0] <= workers] or known[:1]
    above = [entry for entry in known if entry[0] >= workers] or known[-1:]
    (low, slow), (high, fast) = below[-1], above[0]
    if low >= high:
        return slow
    return slow + (fast - slow) * (workers - low) / (high - low)
