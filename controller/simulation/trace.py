"""Jobs out of a trace: rows of a CSV or JSONL file, in the documented form or in that of a known data set.

    jobs, broken = read(rows, kinds)

Pure: rows are (line number, mapping) pairs. A row that cannot be a job is told with its line and its field.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from muster.accelerators import canonical
from muster.quantity import parse_cpu, parse_duration, parse_memory

FIELDS: Final = (
    "name",
    "namespace",
    "submitted",
    "duration",
    "workers",
    "devices",
    "gpus",
    "accelerator",
    "cpu",
    "memory",
    "queue",
    "priority",
    "timeLimit",
    "minWorkers",
    "required",
    "preferred",
)
"""The columns of the documented form; `docs/scheduling.md` says what each means."""

ALIASES: Final = {
    "submitted": ("submitted", "submit_time", "timestamp", "time", "creation_time"),
    "duration": ("duration", "runtime", "run_time"),
    "gpus": ("gpus", "num_gpus", "num_gpu"),
    "accelerator": ("accelerator", "gpu_spec", "gpu_type"),
    "timeLimit": ("timeLimit", "time_limit"),
    "minWorkers": ("minWorkers", "min_workers"),
}
"""Other data sets' names of the same thing, the first that is there counts: Philly, Pollux, openb."""

LONGEST: Final = 3650 * 86400.0
MOST: Final = 1_000_000


class TraceJob(Struct, frozen=True, kw_only=True):
    """One job of a trace. `submitted` in seconds, `duration` in seconds of running, `spec` as in a manifest."""

    name: str
    namespace: str
    submitted: float
    duration: float
    spec: dict[str, Any]


class BrokenRow(Struct, frozen=True):
    line: int
    field: str
    problem: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.field + ': ' if self.field else ''}{self.problem}"


class Kinds(Struct, frozen=True):
    """What the cluster has: kinds of accelerators, the most on one node of each; the queues."""

    most: Mapping[str, int]
    queues: frozenset[str]


class _Broken(Exception):
    def __init__(self, field: str, problem: str) -> None:
        self.field, self.problem = field, problem


def read(rows: Iterable[tuple[int, Any]], kinds: Kinds) -> tuple[list[TraceJob], list[BrokenRow]]:
    """All jobs, by the time of their submission, and all rows that are none. Names are made unique."""
    jobs: list[TraceJob] = []
    broken: list[BrokenRow] = []
    names: dict[tuple[str, str], int] = {}
    for line, row in rows:
        try:
            job = _job(line, row, kinds)
        except _Broken as error:
            broken.append(BrokenRow(line, error.field, error.problem))
            continue
        seen = names[job.namespace, job.name] = names.get((job.namespace, job.name), 0) + 1
        if seen > 1:
            job = TraceJob(
                name=f"{job.name}.{seen}",
                namespace=job.namespace,
                submitted=job.submitted,
                duration=job.duration,
                spec=job.spec,
            )
        jobs.append(job)
    return sorted(jobs, key=lambda job: (job.submitted, job.namespace, job.name)), broken


def missing_columns(columns: Iterable[str]) -> list[str]:
    """What every row would lack."""
    known = set(columns)
    lacking = [name for name in ("submitted",) if not known & set(ALIASES[name])]
    if not known & set(ALIASES["duration"]) and not {"creation_time", "deletion_time"} <= known:
        lacking.append("duration")
    return lacking


def _job(line: int, row: Any, kinds: Kinds) -> TraceJob:
    if not isinstance(row, Mapping):
        raise _Broken("", f"expected one job, found {_short(row)}")
    if None in row:
        raise _Broken("", "it has more fields than the first line")
    submitted = _time(row, "submitted")
    spec: dict[str, Any] = {"command": [str(_get(row, "application") or _get(row, "name") or "job")]}
    spec |= _gang(row, kinds) | _place(row)
    queue = str(_get(row, "queue") or "default")
    if queue not in kinds.queues:
        raise _Broken("queue", f"the cluster has no queue {queue!r}; it has {', '.join(sorted(kinds.queues))}")
    spec["queue"] = queue
    if _get(row, "priority") is not None:
        spec["priority"] = _whole(row, "priority", -MOST)
    if _get(row, "timeLimit") is not None:
        spec["timeLimit"] = f"{_seconds(row, 'timeLimit'):.3f}s"
    return TraceJob(
        name=str(_get(row, "name") or f"job-{line}"),
        namespace=str(_get(row, "namespace") or "default"),
        submitted=submitted,
        duration=_duration(row, submitted),
        spec=spec,
    )


def _gang(row: Mapping[str, Any], kinds: Kinds) -> dict[str, Any]:
    """Workers and what each of them holds. `gpus` counts those of the whole gang, `devices` those of each worker."""
    workers = _whole(row, "workers", 1) if _get(row, "workers") is not None else 1
    devices = _whole(row, "devices", 0) if _get(row, "devices") is not None else 0
    named = _accelerators(row, kinds)
    if _get(row, "gpus") is not None and _get(row, "devices") is None:
        gpus = _whole(row, "gpus", 0)
        most = max((kinds.most.get(kind, 0) for kind in named), default=0) or gpus or 1
        workers = max(workers, math.ceil(gpus / most))
        devices = math.ceil(gpus / workers)
    if devices and not named:
        raise _Broken("accelerator", "which kind? the cluster has several: " + ", ".join(sorted(kinds.most)))
    spec: dict[str, Any] = {"workers": workers, "maxPerNode": workers}
    if devices:
        spec["accelerators"] = [{"type": kind, "count": devices} for kind in named]
    if _get(row, "minWorkers") is not None:
        spec["minWorkers"] = _whole(row, "minWorkers", 1)
        if spec["minWorkers"] > workers:
            raise _Broken("minWorkers", f"expected at most the {workers} workers, found {spec['minWorkers']}")
    return spec


def _accelerators(row: Mapping[str, Any], kinds: Kinds) -> list[str]:
    """The kinds that would do, in order; without any named, the cluster's only one."""
    text = str(_get(row, "accelerator") or "")
    if not text:
        return list(kinds.most) if len(kinds.most) == 1 else []
    words = [word.strip() for word in text.replace("|", ",").split(",") if word.strip()]
    return [canonical(word) or word.lower() for word in words]


def _place(row: Mapping[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {"topology": {}}
    for level in ("required", "preferred"):
        if _get(row, level) is not None:
            spec["topology"][level] = str(_get(row, level))
    cpu, memory = _get(row, "cpu"), _get(row, "memory")
    if cpu is None and _get(row, "cpu_milli") is not None:
        cpu = f"{_whole(row, 'cpu_milli', 0)}m"
    if memory is None and _get(row, "memory_mib") is not None:
        memory = f"{_whole(row, 'memory_mib', 0)}Mi"
    for name, value, parse in (("cpu", cpu, parse_cpu), ("memory", memory, parse_memory)):
        if value is not None:
            try:
                parse(str(value))
            except ValueError as error:
                raise _Broken(name, str(error)) from None
            spec[name] = str(value)
        else:
            spec[name] = "0"
    return spec


# -- fields --------------------------------------------------------------------------------------------


def _get(row: Mapping[str, Any], field: str) -> Any:
    for name in ALIASES.get(field, (field,)):
        value = row.get(name)
        if value is not None and value != "":
            return value
    return None


def _duration(row: Mapping[str, Any], submitted: float) -> float:
    if _get(row, "duration") is None and _get(row, "deletion_time") is not None:
        begun = _number(row, "scheduled_time") if _get(row, "scheduled_time") is not None else submitted
        found = _number(row, "deletion_time") - begun
        if found < 0:
            raise _Broken("deletion_time", "it ends before it begins")
        return found
    return _seconds(row, "duration")


def _seconds(row: Mapping[str, Any], field: str) -> float:
    """A number of seconds, or a duration like 2h30m."""
    value = _get(row, field)
    try:
        found = float(value)
    except (TypeError, ValueError):
        try:
            found = parse_duration(str(value)) if value is not None else math.nan
        except ValueError:
            raise _Broken(field, f"expected seconds or a duration like 2h30m, found {_short(value)}") from None
    if value is None:
        raise _Broken(field, "it is missing")
    if not 0 <= found <= LONGEST:
        raise _Broken(field, f"expected 0 to {LONGEST:g} seconds, found {_short(value)}")
    return found


def _time(row: Mapping[str, Any], field: str) -> float:
    """Seconds, or a date and time (UTC unless it says otherwise)."""
    value = _get(row, field)
    if value is None:
        raise _Broken(field, "it is missing")
    try:
        found = float(value)
    except (TypeError, ValueError):
        try:
            when = datetime.fromisoformat(str(value))
        except ValueError:
            raise _Broken(field, f"expected seconds or a date and time, found {_short(value)}") from None
        found = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(found):
        raise _Broken(field, f"expected a time, found {_short(value)}")
    return found


def _number(row: Mapping[str, Any], field: str) -> float:
    try:
        found = float(_get(row, field))
    except (TypeError, ValueError):
        raise _Broken(field, f"expected a number, found {_short(_get(row, field))}") from None
    if not math.isfinite(found):
        raise _Broken(field, f"expected a number, found {_short(_get(row, field))}")
    return found


def _whole(row: Mapping[str, Any], field: str, least: int) -> int:
    found = _number(row, field)
    if found != int(found) or not least <= found <= MOST:
        raise _Broken(field, f"expected a whole number from {least} to {MOST}, found {_short(_get(row, field))}")
    return int(found)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
