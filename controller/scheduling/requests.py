"""From a job to what the planner places: its gang request, and its turn."""

from typing import Any, Final

from msgspec.structs import replace

from controller.records import GANG, JobRecord, Unmet
from controller.scheduling.kinds import Turn
from controller.scheduling.types import DeviceRequest, GangRequest, Role, Segment
from muster.accelerators import canonical
from muster.priority import BUILTIN_CLASSES
from muster.quantity import parse_cpu, parse_duration, parse_memory
from muster.states import JobPhase

_WAITING: Final = frozenset({JobPhase.QUEUED, JobPhase.RECOVERING})


def wants_to_start(job: JobRecord) -> bool:
    """Whether the job waits for a placement, as far as its own record says."""
    return job.phase in _WAITING and not (job.suspend or job.cancel or job.spec.get("array"))


def same_wish(known: JobRecord | None, job: JobRecord) -> bool:
    """Whether nothing of a job has changed that its request could depend on, e.g. only what it is told."""
    if known is None:
        return False
    return job == replace(known, reason=job.reason, message=job.message, revision=job.revision)


def turn(request: GangRequest) -> Turn:
    """The order in which gangs are served: repairs, then priority, then who has a claim, then age, then name."""
    return (
        not request.repair,
        -request.priority,
        request.claim is None,
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
    preemption = spec.get("preemption") or {}
    nodes = spec.get("nodes") or {}
    limit = spec.get("timeLimit")
    return GangRequest(
        job_uid=job.uid,
        namespace=job.namespace,
        name=job.name,
        scope=GANG if job.element is None else f"element-{job.element}",
        queue=spec.get("queue", "default"),
        priority=_priority(spec) if job.priority is None else job.priority,
        preempts=job.preempts,
        queued_at=job.queued_at,
        repair=job.phase is JobPhase.RECOVERING,
        options=_options(spec, topology),
        roles=tuple(_role(role, spec, topology) for role in spec.get("roles") or ()),
        minimum=spec.get("minWorkers") or (spec.get("workers", 1) if spec.get("maxWorkers") else None),
        speeds=tuple(float(kind.get("speed") or 0.0) for kind in spec.get("accelerators") or ()),
        cpu_milli=parse_cpu(spec.get("cpu", "1")),
        memory=parse_memory(spec.get("memory", "256Mi")),
        max_per_node=spec.get("maxPerNode", 1),
        required_level=topology.get("required"),
        preferred_level=topology.get("preferred"),
        segment=_segment(topology),
        balanced=topology.get("split") == "balanced",
        selector=tuple(sorted((spec.get("nodeSelector") or {}).items())),
        included=tuple(sorted(set(nodes.get("include") or ()))),
        barred=tuple(sorted(set(nodes.get("exclude") or ()))),
        tolerates=tuple((one["key"], one.get("value")) for one in spec.get("tolerations") or ()),
        preferred=job.preferred,
        excluded=job.excluded,
        limit=parse_duration(limit) if limit else None,
        preemptible=preemption.get("allowed", True),
        migratable=preemption.get("migrate", False),
        saves=spec.get("checkpoint") is not None,
        live=spec.get("resizes") == "live",
        charge=spec.get("charge"),
        after=_after(job),
        claim=job.claim,
    )


def _after(job: JobRecord) -> tuple[Unmet, ...]:
    if job.unmet is not None:
        return job.unmet
    entries = job.spec.get("after") or ()
    return tuple(Unmet(one["job"], one.get("condition", "succeeded")) for one in entries if one["job"] not in job.met)


def _priority(spec: dict[str, Any]) -> int:
    value: int | None = spec.get("priority")
    if value is not None:
        return value
    return BUILTIN_CLASSES.get(spec.get("priorityClass", "normal"), 0)


def _segment(topology: dict[str, Any]) -> Segment | None:
    segment = topology.get("segment")
    return Segment(segment["size"], segment["level"], segment.get("allowRemainder", False)) if segment else None


def _device(kind: dict[str, Any], topology: dict[str, Any]) -> DeviceRequest:
    joined, rails = topology.get("devices") == "joined", topology.get("rails") == "match"
    return DeviceRequest(device_type(kind["type"]), kind["count"], joined, rails)


def _options(spec: dict[str, Any], topology: dict[str, Any]) -> tuple[tuple[DeviceRequest | None, int], ...]:
    workers = max(spec.get("workers", 1), spec.get("maxWorkers") or 1)
    kinds = spec.get("accelerators") or []
    if not kinds:
        return ((None, workers),)
    return tuple((_device(kind, topology), kind.get("workers") or workers) for kind in kinds)


def _role(role: dict[str, Any], spec: dict[str, Any], topology: dict[str, Any]) -> Role:
    kinds = role.get("accelerators", spec.get("accelerators")) or []
    return Role(
        name=role["name"],
        workers=role.get("workers", 1),
        device=_device(kinds[0], topology) if kinds else None,
        cpu_milli=parse_cpu(role.get("cpu", spec.get("cpu", "1"))),
        memory=parse_memory(role.get("memory", spec.get("memory", "256Mi"))),
        required_level=(role.get("topology") or {}).get("required"),
    )
