"""What becomes of an array: which elements are made next, and what the elements' ends mean for it. Pure.

An array is a job that never runs itself. Its elements are jobs of their own, made in the order of their indexes, no more
at a time than its parallelism allows. It has ended when all were made and none is live.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from controller.dependencies import sentence
from controller.records import JobRecord
from muster.arrays import index_of, size_of, values_of
from muster.reasons import Waiting
from muster.states import JOB_TERMINAL, JobPhase

BATCH: Final = 200
"""Elements made in one transaction at most."""

LABEL: Final = "muster.dev/array"
INDEX_LABEL: Final = "muster.dev/array-index"

BY_USER: Final = "ByUser"
SUSPENDING: Final = "Suspending"
"""Some of its elements still run, though it was suspended."""

Counts = Mapping[JobPhase, int]


class Next(Struct, frozen=True, kw_only=True):
    """`make`: places of the elements to make now. `phase` and `message`: what the array is then."""

    make: range
    phase: JobPhase
    message: str
    reason: str = ""


def is_array(job: JobRecord) -> bool:
    return job.spec.get("array") is not None


def decide(job: JobRecord, counts: Counts) -> Next:
    """`counts` are its elements by phase."""
    size = size_of(job.spec["array"])
    live = sum(count for phase, count in counts.items() if phase not in JOB_TERMINAL)
    most = job.spec["array"].get("parallelism") or size
    blocked = _blocked(job)
    open_ = not (job.cancel or job.suspend or blocked)
    make = range(job.made, min(size, job.made + BATCH, job.made + max(0, most - live)) if open_ else job.made)
    if live or (make and not job.cancel):
        phase = _going(job, counts)
        reason = "" if not job.suspend else BY_USER if phase is JobPhase.SUSPENDED else SUSPENDING
        message = _told(counts, size - job.made - len(make), most, size)
        return Next(make=make, phase=phase, message=message, reason=reason)
    if job.cancel:
        return Next(make=make, phase=JobPhase.CANCELLED, message="cancelled by its user")
    if job.suspend:
        return Next(make=make, phase=JobPhase.SUSPENDED, message="suspended by its user", reason=BY_USER)
    if job.made < size:
        text = "; ".join(sentence(one) for one in job.unmet or ()) if blocked else job.message
        return Next(
            make=make,
            phase=JobPhase.QUEUED,
            message=text,
            reason=str(Waiting.DEPENDENCY) if blocked and job.unmet else "",
        )
    return _ended(counts, make)


def _blocked(job: JobRecord) -> bool:
    """Whether something that comes before it has not happened."""
    return bool(job.spec.get("after")) and (job.unmet is None or bool(job.unmet))


def _going(job: JobRecord, counts: Counts) -> JobPhase:
    """It runs from its first running element on; suspended once none runs any more."""
    if job.suspend:
        held = sum(counts.get(phase, 0) for phase in (JobPhase.STARTING, JobPhase.RUNNING, JobPhase.RECOVERING)) == 0
        return JobPhase.SUSPENDED if held else job.phase
    begun = any(counts.get(phase) for phase in (JobPhase.RUNNING, JobPhase.SUCCEEDED, JobPhase.FAILED))
    if begun or job.phase is JobPhase.RUNNING:
        return JobPhase.RUNNING
    return JobPhase.QUEUED


def _ended(counts: Counts, make: range) -> Next:
    failed, cancelled = counts.get(JobPhase.FAILED, 0), counts.get(JobPhase.CANCELLED, 0)
    phase = JobPhase.FAILED if failed else JobPhase.CANCELLED if cancelled else JobPhase.SUCCEEDED
    whole = sum(counts.values())
    parts = [f"{counts[one]} of {whole} elements {str(one).lower()}" for one in sorted(counts) if counts[one]]
    return Next(make=make, phase=phase, message=", ".join(parts), reason="ElementsFailed" if failed else "")


def _told(counts: Counts, left: int, most: int, size: int) -> str:
    parts = [f"{counts[phase]} {str(phase).lower()}" for phase in JobPhase if counts.get(phase)]
    limit = f" (at most {most} at once)" if most < size else ""
    return ", ".join([*parts, *([f"{left} to come{limit}"] if left else [])])


def element(parent: JobRecord, place: int, uid: str, now: float) -> JobRecord:
    """The job of the element at a place. Its checkpoints lie in a folder of its own below the array's."""
    array = parent.spec["array"]
    index = index_of(array, place)
    spec: dict[str, Any] = {key: value for key, value in parent.spec.items() if key not in ("array", "after", "notify")}
    spec["env"] = {**(spec.get("env") or {}), **values_of(array, place), **_variables(parent, index)}
    if directory := (spec.get("checkpoint") or {}).get("directory"):
        spec["checkpoint"] = {**spec["checkpoint"], "directory": f"{directory.rstrip('/')}/{index}"}
    return JobRecord(
        uid=uid,
        namespace=parent.namespace,
        name=name_of(parent.name, index),
        spec=spec,
        labels={**parent.labels, LABEL: parent.name, INDEX_LABEL: str(index)},
        annotations=parent.annotations,
        user=parent.user,
        warnings=parent.warnings,
        priority=parent.priority,
        preempts=parent.preempts,
        parent=parent.uid,
        element=index,
        created_at=now,
        queued_at=parent.queued_at,
    )


def names_of(name: str, array: Mapping[str, Any]) -> Iterable[str]:
    """The names of all elements."""
    return (name_of(name, index_of(array, place)) for place in range(size_of(array)))


def name_of(name: str, index: int) -> str:
    return f"{name}-{index}"


def _variables(parent: JobRecord, index: int) -> dict[str, str]:
    return {
        "MUSTER_ARRAY_JOB": parent.name,
        "MUSTER_ARRAY_JOB_UID": parent.uid,
        "MUSTER_ARRAY_JOB_NUMBER": str(parent.number),
        "MUSTER_ARRAY_INDEX": str(index),
        "MUSTER_ARRAY_SIZE": str(size_of(parent.spec["array"])),
    }
