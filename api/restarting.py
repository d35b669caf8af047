"""A restart as its user wants it: with the code of another folder, from a step of their choice, also of a job that has ended."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from api.problems import conflict
from api.submission import existing, steer
from controller.arrays import is_array
from controller.records import JobRecord, RestartFrom
from controller.state import Writer
from muster.protocol import CheckpointItem
from muster.states import JOB_TERMINAL, JobPhase


class Restart(Struct, frozen=True, kw_only=True):
    """`workdir`: absolute, None as before. `step`: of a complete checkpoint, 0: from the beginning, None: the newest."""

    workdir: str | None = None
    step: int | None = None


def restart(
    w: Writer, namespace: str, name: str, asked: Restart, *, user: str, now: float, new_id: Callable[[], str]
) -> JobRecord:
    """Raises Problem. A job that has ended begins anew under its name, with the checkpoints that it had."""
    job = existing(w, namespace, name)
    if job.parent or is_array(job):
        if asked != Restart():
            raise conflict(f"job {name} belongs to an array, whose elements share code and checkpoints")
        return steer(w, namespace, name, "restart", user, now)
    _check_step(w, job, asked)
    if job.phase in JOB_TERMINAL:
        return _again(w, job, asked, user=user, now=now, uid=new_id())
    fields = _fields(job, asked)
    if fields:
        job = w.patch_job(job.uid, **fields)
    if job.attempt_uid is None and job.phase in (JobPhase.QUEUED, JobPhase.RECOVERING) and fields:
        return job  # its next start is the one that was asked for
    if job.suspend and fields:
        return steer(w, namespace, name, "resume", user, now)
    return steer(w, namespace, name, "restart", user, now)


def _fields(job: JobRecord, asked: Restart) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if asked.workdir is not None and asked.workdir != job.spec.get("workdir"):
        fields |= {"spec": {**job.spec, "workdir": asked.workdir}, "generation": job.generation + 1}
    if asked.step is not None:
        fields |= {"restart_from": RestartFrom(step=asked.step, epoch=max(job.epoch, job.epoch_floor))}
        fields |= {"best_step": asked.step or None, "no_progress": 0}
    return fields


def _check_step(w: Writer, job: JobRecord, asked: Restart) -> None:
    if not asked.step:
        return
    steps = sorted({one.step for one in w.checkpoints(job.uid) if one.complete})
    if asked.step not in steps:
        there = ", ".join(map(str, steps[-20:])) or "none"
        raise conflict(
            f"job {job.name} has no complete checkpoint of step {asked.step}; there is: {there}", code="NO_SUCH_STEP"
        )


def _again(w: Writer, job: JobRecord, asked: Restart, *, user: str, now: float, uid: str) -> JobRecord:
    fields = _fields(job, asked)
    made = JobRecord(
        uid=uid,
        namespace=job.namespace,
        name=job.name,
        spec=fields.get("spec", job.spec),
        labels=job.labels,
        annotations=job.annotations,
        user=job.user,
        priority=job.priority,
        preempts=job.preempts,
        restart_from=replace(fields["restart_from"], epoch=0) if "restart_from" in fields else None,
        created_at=now,
        queued_at=now,
    )
    w.insert_job(made)
    stock = [
        CheckpointItem(path=one.path, step=one.step, format=one.format, complete=one.complete, size=one.size,
                       modified_at=one.created_at, manifest=one.manifest, why=one.why)
        for one in w.checkpoints(job.uid)
    ]  # fmt: skip
    if stock:
        w.put_checkpoints(uid, "", 0, stock)
    w.add_event(
        namespace=made.namespace, kind="Job", object_uid=uid, name=made.name, reason="Restarted", at=now,
        message=f"begun anew by {user} after job {job.uid} had ended ({job.phase})",
    )  # fmt: skip
    return made
