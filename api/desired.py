"""What each node should have: its live workers, as its agent needs them."""

from collections.abc import Iterable

from api.credentials import attempt_token
from controller.records import AttemptRecord, JobRecord, RepairRecord, WorkerRecord
from controller.state import Reader
from muster.protocol import Assignment, Desired, NodeTask, Origin
from muster.states import AttemptPhase, RepairPhase


def desired(r: Reader, nodes: Iterable[str], secret: str) -> dict[str, Desired]:
    """By node. A worker whose job or attempt is gone or over is not listed, so its agent stops it."""
    workers = {node: r.workers_of_node(node) for node in nodes}
    attempts = r.attempts_of({one.attempt_uid for found in workers.values() for one in found})
    jobs = {uid: r.job(uid) for uid in sorted({one.job_uid for one in attempts.values()})}
    generation, tasks = r.revision(), _tasks(r)
    shown = {}
    for node, found in workers.items():
        listed = []
        for worker in found:
            attempt = attempts.get(worker.attempt_uid)
            job = jobs.get(worker.job_uid)
            if attempt is not None and job is not None and attempt.phase is not AttemptPhase.ENDED:
                listed.append(assignment(job, attempt, worker, secret))
        shown[node] = Desired(generation=generation, assignments=tuple(listed), tasks=tasks.get(node, ()))
    return shown


_DOES = {RepairPhase.RESETTING: "reset", RepairPhase.CHECKING: "check"}


def _tasks(r: Reader) -> dict[str, tuple[NodeTask, ...]]:
    """What repairs ask of agents now."""
    return {
        one.node: (NodeTask(uid=one.task, do=_DOES[one.phase], devices=one.devices or _devices(one)),)
        for one in r.repairs(live_only=True)
        if one.phase in _DOES and one.task
    }


def _devices(repair: RepairRecord) -> tuple[int, ...]:
    return tuple(sorted({one.device for one in repair.conditions if one.device is not None}))


def assignment(job: JobRecord, attempt: AttemptRecord, worker: WorkerRecord, secret: str) -> Assignment:
    checkpoint = job.spec.get("checkpoint") or {}
    return Assignment(
        worker_uid=worker.uid,
        attempt=attempt.uid,
        job=job.name,
        job_uid=job.uid,
        namespace=job.namespace,
        scope=attempt.scope,
        number=attempt.number,
        epoch=worker.epoch,
        role=worker.role,
        index=worker.index,
        desired=worker.desired,
        revision=worker.template_revision,
        template=worker.template,
        devices=worker.devices,
        fence=worker.fence,
        grace=worker.grace,
        stop_reason=worker.stop_reason,
        failing=attempt.phase is AttemptPhase.STOPPING and attempt.reason is None,
        token=attempt_token(secret, attempt.uid, attempt.epoch),
        checkpoint_directory=checkpoint.get("directory"),
        checkpoint_format=checkpoint.get("format", "auto"),
        ports=worker.ports,
        cpu_milli=worker.cpu_milli,
        memory=worker.memory,
        origin=origin(job, attempt),
        examine=worker.examine,
    )


def origin(job: JobRecord, attempt: AttemptRecord) -> Origin:
    """For the day on which this database is lost."""
    return Origin(
        spec=job.spec,
        workers=sum(role["workers"] for role in job.spec.get("roles", ())) or job.spec.get("workers", 1),
        labels=job.labels,
        annotations=job.annotations,
        user=job.user,
        generation=job.generation,
        created_at=job.created_at,
        queued_at=job.queued_at,
        restarts=job.restarts,
        no_progress=job.no_progress,
        best_step=job.best_step,
        rendezvous=attempt.rendezvous,
        placed_at=attempt.placed_at,
    )
