"""When a changed field of a live job's manifest takes effect, as data. Longer paths win over shorter ones."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class When(StrEnum):
    LIVE = "live"
    """At once."""
    NEXT_ATTEMPT = "next attempt"
    """With the next start; accepted only while the job is suspended, so that no attempt is half old, half new."""
    NEVER = "never"
    """Not for this job; submit another one."""


MUTABILITY: Final[dict[str, When]] = {
    "metadata.labels": When.LIVE,
    "metadata.annotations": When.LIVE,
    "spec.queue": When.NEXT_ATTEMPT,
    "spec.priorityClass": When.LIVE,
    "spec.framework": When.NEXT_ATTEMPT,
    "spec.workers": When.NEXT_ATTEMPT,
    "spec.minWorkers": When.NEXT_ATTEMPT,
    "spec.after": When.LIVE,
    "spec.array": When.NEVER,
    "spec.array.parallelism": When.LIVE,
    "spec.maxWorkers": When.NEXT_ATTEMPT,
    "spec.throughput": When.LIVE,
    "spec.roles": When.NEXT_ATTEMPT,
    "spec.maxPerNode": When.NEXT_ATTEMPT,
    "spec.ranksPerWorker": When.NEXT_ATTEMPT,
    "spec.accelerators": When.NEXT_ATTEMPT,
    "spec.cpu": When.NEXT_ATTEMPT,
    "spec.memory": When.NEXT_ATTEMPT,
    "spec.workdir": When.NEXT_ATTEMPT,
    "spec.command": When.NEXT_ATTEMPT,
    "spec.script": When.NEXT_ATTEMPT,
    "spec.env": When.NEXT_ATTEMPT,
    "spec.limits": When.NEXT_ATTEMPT,
    "spec.ulimits": When.NEXT_ATTEMPT,
    "spec.binding": When.NEXT_ATTEMPT,
    "spec.loginShell": When.NEXT_ATTEMPT,
    "spec.image": When.NEXT_ATTEMPT,
    "spec.imagePull": When.NEXT_ATTEMPT,
    "spec.mounts": When.NEXT_ATTEMPT,
    "spec.shmSize": When.NEXT_ATTEMPT,
    "spec.timeLimit": When.NEXT_ATTEMPT,
    "spec.topology": When.NEXT_ATTEMPT,
    "spec.nodeSelector": When.NEXT_ATTEMPT,
    "spec.nodes": When.NEXT_ATTEMPT,
    "spec.tolerations": When.NEXT_ATTEMPT,
    "spec.preemption": When.LIVE,
    "spec.checkpoint": When.NEXT_ATTEMPT,
    "spec.checkpoint.directory": When.NEVER,
    "spec.checkpoint.format": When.NEVER,
    "spec.progress": When.NEXT_ATTEMPT,
    "spec.recovery": When.LIVE,
    "spec.recovery.fenceAfter": When.NEXT_ATTEMPT,
    "spec.notify": When.LIVE,
    "spec.suspend": When.LIVE,
}


def when(path: str) -> When:
    """For a dotted path such as `spec.recovery.maxRestarts`. What the table does not name never changes."""
    while path:
        if path in MUTABILITY:
            return MUTABILITY[path]
        path = path.rpartition(".")[0]
    return When.NEVER


def changed(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "spec") -> list[str]:
    """Dotted paths of the fields in which two manifests differ, in order. Lists and labels count as one field."""
    paths: list[str] = []
    for name in sorted(old.keys() | new.keys()):
        before, after, path = old.get(name), new.get(name), f"{prefix}.{name}"
        if before == after:
            continue
        if isinstance(before, Mapping | None) and isinstance(after, Mapping | None) and _has_fields(path):
            paths += changed(before or {}, after or {}, path)
        else:
            paths.append(path)
    return paths


def _has_fields(path: str) -> bool:
    """Whether the table tells the parts of this field apart."""
    return any(known.startswith(path + ".") for known in MUTABILITY)
