"""Whether a job may be submitted as things stand: what the manifest alone cannot tell."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from controller.arrays import name_of
from controller.dependencies import Newest, circle
from controller.launch.render import unlaunchable
from controller.launch.running import overridden
from controller.records import JobRecord, PriorityClassRecord, QueueRecord
from controller.scheduling.requests import request_of
from muster.accelerators import canonical, suggest
from muster.arrays import index_of, size_of
from muster.priority import BUILTIN_CLASSES
from muster.problems import FieldError, nearest

if TYPE_CHECKING:
    from api.inventory import Ground
    from controller.scheduling.index import ClusterIndex


LONGEST_NAME: Final = 63


def findings(spec: dict[str, Any], queues: Iterable[QueueRecord], index: "ClusterIndex") -> list[FieldError]:
    """Everything that is wrong with the spec (in its wire form), at once, but for its priority class."""
    errors = [
        _one_of("spec.queue", "unknown queue", spec["queue"], [queue.name for queue in queues]),
        *(_accelerator(number, kind["type"]) for number, kind in enumerate(spec.get("accelerators", ()))),
        *_levels(spec.get("topology") or {}, index),
        *(error for number, role in enumerate(spec.get("roles") or ()) for error in _role(number, role, index)),
        unlaunchable(spec),
    ]
    return [error for error in errors if error is not None]


def class_errors(job: JobRecord, classes: Mapping[str, PriorityClassRecord]) -> list[FieldError]:
    """Whether the job may have the priority class that it names."""
    field, name = "spec.priorityClass", job.spec["priorityClass"]
    if name not in classes:
        error = _one_of(field, "unknown priority class", name, {*classes, *BUILTIN_CLASSES})
        return [error] if error else []
    who = classes[name].spec.get("who")
    if who is None or is_one_of(job, who):
        return []
    named = "; ".join(f"{what} {', '.join(names)}" for what, names in who.items() if names)
    return [FieldError(field, f"may be used only by {named}", "FORBIDDEN", name)]


def order_errors(job: JobRecord, newest: Newest) -> list[FieldError]:
    """A job that comes after itself, by whatever way; an array whose elements' names would be too long."""
    errors = []
    if way := circle(job, newest):
        message = f"goes in a circle: {' -> '.join(way)} (each comes after the next)"
        errors.append(FieldError("spec.after", message, "CIRCLE"))
    if array := job.spec.get("array"):
        longest = name_of(job.name, index_of(array, size_of(array) - 1))
        if len(longest) > LONGEST_NAME:
            message = f"too long for an array: its elements are called like {longest}"
            errors.append(FieldError("metadata.name", message, found=job.name))
    return errors


def absent(job: JobRecord, newest: Newest) -> list[str]:
    """Warnings of jobs that it comes after and nobody knows yet."""
    return [
        f"DEPENDENCY: spec.after[{place}]: there is no job {entry['job']} in namespace {job.namespace} yet"
        for place, entry in enumerate(job.spec.get("after") or ())
        if newest(entry["job"]) is None
    ]


def is_one_of(job: JobRecord, who: Mapping[str, Any]) -> bool:
    """Whether any of the lists of `namespaces`, `users` and `queues` names it."""
    own = (("namespaces", job.namespace), ("users", job.user), ("queues", job.spec.get("queue")))
    return any(value in (who.get(what) or ()) for what, value in own)


def completed(spec: dict[str, Any], queue: QueueRecord | None) -> dict[str, Any]:
    """The spec with what its queue says where it says nothing itself."""
    limit = queue.spec.get("defaultTimeLimit") if queue else None
    return spec if "timeLimit" in spec or not limit else spec | {"timeLimit": limit}


def warnings(job: JobRecord, ground: "Ground") -> tuple[str, ...]:
    """What its user should know although the job is accepted."""
    wait = ground.structural(request_of(job))
    own = overridden(job.spec)
    return (
        *((f"{wait.code}: {wait.message}",) if wait else ()),
        *((f"OVERRIDDEN: spec.env sets {', '.join(own)} itself; these values win over Muster's",) if own else ()),
    )


def _one_of(field: str, message: str, found: str, known: Iterable[str]) -> FieldError | None:
    allowed = tuple(sorted(known))
    return None if found in allowed else FieldError(field, message, "UNKNOWN", found, allowed, nearest(found, allowed))


def _role(number: int, role: dict[str, Any], index: "ClusterIndex") -> list[FieldError | None]:
    from controller.scheduling.index import unknown_level

    place, level = f"spec.roles[{number}]", (role.get("topology") or {}).get("required")
    kinds = (_accelerator(at, kind["type"], place) for at, kind in enumerate(role.get("accelerators") or ()))
    return [*kinds, unknown_level(index, level, f"{place}.topology.required")]


def _accelerator(number: int, kind: str, place: str = "spec") -> FieldError | None:
    if canonical(kind) is not None:
        return None
    field = f"{place}.accelerators[{number}].type"
    return FieldError(field, "unknown accelerator", "UNKNOWN_ACCELERATOR", kind, suggestion=suggest(kind))


def _levels(topology: dict[str, Any], index: "ClusterIndex") -> list[FieldError | None]:
    from controller.scheduling.index import unknown_level

    segment = topology.get("segment") or {}
    return [
        *(unknown_level(index, topology.get(word), f"spec.topology.{word}") for word in ("required", "preferred")),
        unknown_level(index, segment.get("level"), "spec.topology.segment.level"),
    ]
