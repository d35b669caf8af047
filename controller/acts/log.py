"""Events about jobs and nodes, in one form."""

from typing import Literal

from controller.records import JobRecord, NodeRecord
from controller.state.writing import Writer

Level = Literal["normal", "warning"]


def job_event(w: Writer, job: JobRecord, reason: str, message: str, now: float, level: Level = "normal") -> None:
    w.add_event(
        namespace=job.namespace,
        kind="Job",
        object_uid=job.uid,
        name=job.name,
        reason=reason,
        message=message,
        level=level,
        at=now,
    )


def node_event(w: Writer, node: NodeRecord, reason: str, message: str, now: float, level: Level = "normal") -> None:
    w.add_event(
        namespace="",
        kind="Node",
        object_uid=node.uid,
        name=node.name,
        reason=reason,
        message=message,
        level=level,
        at=now,
    )
