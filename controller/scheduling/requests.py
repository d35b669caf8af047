"""From a job to what the planner places: its gang request, and its turn."""

from typing import Any, Final

from controller.records import JobRecord
from controller.scheduling.types import DeviceRequest, GangRequest
from muster.accelerators import canonical
from muster.quantity import parse_cpu, parse_memory
from muster.states import JobPhase

PRIORITY_CLASSES: Final = {"low": -100, "normal": 0, "high": 100}
"""Priority by class name, higher first. A class that is not known counts as normal."""

_WAITING: Final = frozenset({JobPhase.QUEUED, JobPhase.RECOVERING})


def wants_to_start(job: JobRecord) -> bool:
    """Whether the job waits for a placement, as far as its own record says."""
    return job.phase in _WAITING and not (job.suspend or job.cancel)


def turn(request: GangRequest) -> tuple[bool, int, float, str, str, str]:
    """The order in which gangs are served: repairs, then priority, then age, then name."""
    return (
        not request.repair,
        -request.priority,
        request.queued_at,
        request.namespace,
        request.name,
        request.job_uid,
    )


def device_type(name: str) -> str:
    """The catalogue's name of an accelerator; one that it does not know is called as it is, in lower case."""
    return canonical(name) or name.strip().lower()


def request_of(job: JobRecord) -> GangRequest:
    """The gang of a job's validated spec."""
    spec = job.spec
    topology = spec.get("topology") or {}
    return GangRequest(
        job_uid=job.uid,
        namespace=job.namespace,
        name=job.name,
        queue=spec.get("queue", "default"),
        priority=PRIORITY_CLASSES.get(spec.get("priorityClass", "normal"), PRIORITY_CLASSES["normal"]),
        queued_at=job.queued_at,
        repair=job.phase is JobPhase.RECOVERING,
        options=_options(spec),
        cpu_milli=parse_cpu(spec.get("cpu", "1")),
        memory=parse_memory(spec.get("memory", "256Mi")),
        max_per_node=spec.get("maxPerNode", 1),
        required_level=topology.get("required"),
        preferred_level=topology.get("preferred"),
        preferred=job.preferred,
        excluded=job.excluded,
    )


def _options(spec: dict[str, Any]) -> tuple[tuple[DeviceRequest | None, int], ...]:
    workers = spec.get("workers", 1)
    kinds = spec.get("accelerators") or []
    if not kinds:
        return ((None, workers),)
    return tuple(
        (DeviceRequest(device_type(kind["type"]), kind["count"]), kind.get("workers") or workers) for kind in kinds
    )
