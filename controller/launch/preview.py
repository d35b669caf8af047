"""What each rank of a job would get, on nodes that are made up: for `muster apply --dry-run -o launch`.

Nodes are called node-0, node-1, ..., one worker on each, with addresses of the block for documentation (RFC 5737).
What only a node can know stays a placeholder, such as `%{interface}`.
"""

from typing import Any, Final

from controller.launch.ports import LOWEST, ports_needed
from controller.launch.render import render
from controller.launch.roles import roles_of, spec_of
from controller.launch.types import PlacedWorker
from controller.records import AttemptRecord, JobRecord
from muster.accelerators import canonical
from muster.launch import LaunchTemplate
from muster.states import AttemptPhase

SHOWN: Final = 254
"""Workers that have an address; a larger gang's further ones are left out."""


def preview(job: JobRecord) -> list[dict[str, Any]]:
    """For each worker, in rank order: role, index, node, files and its processes, each with argv and environment.
    Raises LaunchError as `render` does."""
    placed = _placed(job)
    attempt = AttemptRecord(
        uid="00000000-preview",
        job_uid=job.uid,
        namespace=job.namespace,
        job_name=job.name,
        scope="gang",
        number=1,
        epoch=1,
        rendezvous=f"{job.name}-1-preview",
        phase=AttemptPhase.PLACED,
        placed_at=job.created_at,
    )
    return [_shown(worker, template) for worker, template in zip(placed, render(job, attempt, placed), strict=True)]


def _placed(job: JobRecord) -> list[PlacedWorker]:
    size, found = ports_needed(job.spec), list[PlacedWorker]()
    counts = {one["name"]: one.get("workers", 1) for one in job.spec.get("roles") or ()}
    for role in roles_of(job.spec):
        kinds = spec_of(job.spec, role).get("accelerators") or ()
        kind: dict[str, Any] = dict(kinds[0]) if kinds else {}
        for index in range(counts.get(role) or kind.get("workers") or job.spec.get("workers", 1)):
            if len(found) == SHOWN:
                return found
            found.append(
                PlacedWorker(
                    role=role,
                    index=index,
                    node=f"node-{len(found)}",
                    host=f"node-{len(found)}",
                    address=f"192.0.2.{len(found) + 1}",
                    devices=tuple(range(kind.get("count", 1))) if kind else (),
                    device_type=canonical(kind["type"]) if kind else None,
                    ports=tuple(range(LOWEST, LOWEST + size)),
                )
            )
    return found


def _shown(worker: PlacedWorker, template: LaunchTemplate) -> dict[str, Any]:
    envs = template.process_env or ({},) * len(template.processes)
    files = {**template.files, **({"script": template.script} if template.script is not None else {})}
    return {
        "role": worker.role,
        "index": worker.index,
        "node": worker.node,
        "workdir": template.workdir,
        "firstRank": template.first_rank,
        "ranks": template.ranks,
        "ports": list(worker.ports),
        "files": files,
        "processes": [
            {"argv": list(words), "env": {**template.env, **env}}
            for words, env in zip(template.processes, envs, strict=True)
        ],
    }
