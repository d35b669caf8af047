"""After the database was lost or went back: jobs and attempts are put back as agents still run them.

The agents' truth wins over the database's: what the database believes to run under an older epoch of the same job is
ended as superseded. An attempt is put back whole or not at all.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from controller.acts.log import job_event
from controller.lifecycle import ended_badly
from controller.records import AttemptRecord, JobRecord, LeaseRecord, NodeRecord, ResumePoint, WorkerRecord
from controller.state.types import ClusterRecord, StrayRecord
from controller.state.writing import Writer
from muster.protocol import Assignment, Lease, Origin
from muster.quantity import parse_duration
from muster.reasons import End
from muster.states import JOB_TERMINAL, WORKER_TERMINAL, AttemptPhase, JobPhase, WorkerPhase

EPOCHS_LOST = 1000
"""Epochs that a job may have had between a backup and the moment it was restored: the next one goes beyond them."""


class Stray(Struct, frozen=True, kw_only=True):
    """An attempt that nodes say they run. `problem` says why it cannot be restored; empty when it can. `missing`: the
    workers of its gang that no node has told of."""

    uid: str
    workers: tuple[StrayRecord, ...]
    missing: int
    problem: str = ""

    @property
    def told(self) -> Assignment | None:
        return next((one.assignment for one in self.workers if one.assignment is not None), None)


def strays(found: Iterable[StrayRecord]) -> list[Stray]:
    """By job and epoch. What an operator has discarded, and what has ended, is left out."""
    by_attempt: dict[str, list[StrayRecord]] = defaultdict(list)
    for one in found:
        if not one.discarded:
            by_attempt[one.attempt_uid].append(one)
    live = {uid: workers for uid, workers in by_attempt.items() if any(one.report.phase != "Exited" for one in workers)}
    newest: dict[tuple[str, str], int] = {}
    for workers in live.values():
        if (told := workers[0].assignment) is not None:
            scope = (told.job_uid, told.scope)
            newest[scope] = max(newest.get(scope, 0), told.epoch)
    made = [_stray(uid, workers, newest) for uid, workers in live.items()]
    return sorted(made, key=lambda one: (one.told.namespace, one.told.job, one.told.epoch) if one.told else ("", "", 0))


def _stray(uid: str, workers: list[StrayRecord], newest: dict[tuple[str, str], int]) -> Stray:
    told = [one.assignment for one in workers if one.assignment is not None]
    origins = [one.origin for one in told if one.origin is not None]
    if len(origins) < len(workers):
        return Stray(
            uid=uid, workers=tuple(workers), missing=0, problem="its agent has not told, or is too old to tell"
        )
    missing = origins[0].workers - len({(one.role, one.index) for one in told})
    problem = ""
    if told[0].epoch < newest[told[0].job_uid, told[0].scope]:
        problem = "a newer attempt of the same job runs too"
    return Stray(uid=uid, workers=tuple(workers), missing=max(0, missing), problem=problem)


def restore(w: Writer, stray: Stray, *, incomplete: bool, now: float) -> str:
    """Put the attempt back, and its job where it is not there. The reason why not; empty when it is done. Raises Taken
    when a name, a device or a port is somebody else's by now."""
    told = stray.told
    if stray.problem or told is None or told.origin is None:
        return stray.problem
    if stray.missing and not incomplete:
        return f"{stray.missing} of {told.origin.workers} workers are not known yet"
    job = w.job(told.job_uid)
    if job is not None and job.phase in JOB_TERMINAL:
        return f"job {job.name} is {job.phase}"
    for attempt in w.attempts(told.job_uid):
        if attempt.scope == told.scope and attempt.phase is not AttemptPhase.ENDED:
            if attempt.epoch > told.epoch:
                return (
                    f"attempt {attempt.number} of job {attempt.job_name} is live with the newer epoch {attempt.epoch}"
                )
            _supersede(w, attempt, now)
    phase = _phase(stray)
    if job is None:
        job = w.insert_job(_job(told, told.origin, stray, phase))
    _put(w, job, told, told.origin, stray, phase, now)
    w.forget_strays(stray.uid)
    nodes = ", ".join(sorted({one.node for one in stray.workers}))
    job_event(w, job, "Restored", f"attempt {told.number} was found running on {nodes} and put back", now, "warning")
    return ""


def _put(
    w: Writer, job: JobRecord, told: Assignment, origin: Origin, stray: Stray, phase: AttemptPhase, now: float
) -> None:
    found = [_worker(w, one, one.assignment) for one in stray.workers if one.assignment is not None]
    well = [one.uid for one in found if one.phase is WorkerPhase.EXITED and not ended_badly(one)]
    done = [] if phase is AttemptPhase.STOPPING else well
    w.insert_attempt(replace(_attempt(job, told, origin, stray, phase, now), succeeded=len(done)))
    w.insert_workers(found + _lost(found, origin, now))
    for uid in done:
        w.release_worker(uid)
    running = phase is AttemptPhase.RUNNING
    fields: dict[str, Any] = {"attempt_uid": stray.uid, "epoch": told.epoch, "reason": "", "message": ""}
    if job.phase is JobPhase.SUSPENDED:  # it was resumed after the backup was made, or nothing would run
        w.move_job(job.uid, JobPhase.QUEUED, suspend=False)
    if job.phase not in (JobPhase.STARTING, JobPhase.RUNNING):
        w.move_job(job.uid, JobPhase.STARTING, recovering_since=None, claim=None, **fields)
    w.patch_job(job.uid, **fields)
    if running and job.phase is not JobPhase.RUNNING:
        w.move_job(job.uid, JobPhase.RUNNING, started_at=job.started_at or _running_at(stray) or now)


def _supersede(w: Writer, attempt: AttemptRecord, now: float) -> None:
    """The database's own idea of what runs is older than what does."""
    for worker in w.workers(attempt.uid):
        if worker.phase not in WORKER_TERMINAL:
            w.move_worker(worker.uid, WorkerPhase.EXITED, problem="VANISHED", message="superseded", ended_at=now)
        w.release_worker(worker.uid)
    why = "agents run a newer attempt, which the database had forgotten"
    w.move_attempt(attempt.uid, AttemptPhase.ENDED, reason=End.SUPERSEDED, message=why, ended_at=now, decided_at=now)


def _phase(stray: Stray) -> AttemptPhase:
    told = [one.assignment for one in stray.workers if one.assignment is not None]
    if any(one.desired == "stop" for one in told):
        return AttemptPhase.STOPPING
    started = [one.report.phase in (WorkerPhase.RUNNING, WorkerPhase.EXITED) for one in stray.workers]
    return AttemptPhase.RUNNING if all(started) else AttemptPhase.LAUNCHING


def _running_at(stray: Stray) -> float | None:
    times = [one.report.at for one in stray.workers if one.report.phase == WorkerPhase.RUNNING]
    return min(times, default=None)


def _job(told: Assignment, origin: Origin, stray: Stray, phase: AttemptPhase) -> JobRecord:
    return JobRecord(
        uid=told.job_uid,
        namespace=told.namespace,
        name=told.job,
        spec=origin.spec,
        labels=origin.labels,
        annotations=origin.annotations,
        user=origin.user,
        generation=origin.generation,
        phase=JobPhase.RUNNING if phase is AttemptPhase.RUNNING else JobPhase.STARTING,
        epoch=told.epoch,
        restarts=origin.restarts,
        no_progress=origin.no_progress,
        best_step=origin.best_step,
        created_at=origin.created_at,
        queued_at=origin.queued_at,
        started_at=_running_at(stray),
    )


def _attempt(
    job: JobRecord, told: Assignment, origin: Origin, stray: Stray, phase: AttemptPhase, now: float
) -> AttemptRecord:
    resume = told.template.resume
    return AttemptRecord(
        uid=stray.uid,
        job_uid=job.uid,
        namespace=job.namespace,
        job_name=job.name,
        scope=told.scope,
        number=told.number,
        epoch=told.epoch,
        rendezvous=origin.rendezvous,
        phase=phase,
        resume=ResumePoint(path=resume, step=origin.best_step or 0) if resume else None,
        placed_at=origin.placed_at,
        launching_at=origin.placed_at,
        running_at=_running_at(stray) if phase is AttemptPhase.RUNNING else None,
        stopping_at=now if phase is AttemptPhase.STOPPING else None,
    )


def _worker(w: Writer, stray: StrayRecord, told: Assignment) -> WorkerRecord:
    node, report = w.node(stray.node), stray.report
    phase = WorkerPhase(report.phase)
    return WorkerRecord(
        uid=stray.worker_uid,
        attempt_uid=stray.attempt_uid,
        job_uid=told.job_uid,
        namespace=told.namespace,
        role=told.role,
        index=told.index,
        node=stray.node,
        host=node.host if node is not None else "",
        epoch=told.epoch,
        devices=told.devices,
        ports=told.ports,
        cpu_milli=told.cpu_milli,
        memory=told.memory,
        template=told.template,
        template_revision=told.revision,
        desired=told.desired,  # type: ignore[arg-type]
        grace=told.grace,
        stop_reason=told.stop_reason,
        fence=told.fence,
        phase=phase,
        exits=report.exits,
        problem=report.problem,
        message=report.message,
        running_at=report.at if phase is WorkerPhase.RUNNING else None,
        ended_at=report.at if phase is WorkerPhase.EXITED else None,
    )


def _lost(found: Sequence[WorkerRecord], origin: Origin, now: float) -> list[WorkerRecord]:
    """Workers of the gang that nobody has: as if their node had been lost, so that the gang is stopped and recovers."""
    there = {one.index for one in found}
    first = found[0]
    return [
        replace(
            first,
            uid=f"{first.attempt_uid}-{index}",
            index=index,
            node="unknown",
            host="",
            devices=(),
            ports=(),
            phase=WorkerPhase.LOST,
            exits=(),
            problem="",
            message="no node told of it after the database was lost",
            running_at=None,
            ended_at=now,
        )
        for index in range(origin.workers)
        if index not in there
    ]


def silent(cluster: ClusterRecord, nodes: Iterable[NodeRecord], leases: Iterable[LeaseRecord]) -> list[str]:
    """Nodes that have not been heard of since everything is on hold: what they run nobody knows."""
    since = cluster.held_since
    if since is None:
        return []
    heard = {lease.node for lease in leases if lease.renewed_at >= since}
    return sorted(node.name for node in nodes if node.name not in heard)


def fenced_at(cluster: ClusterRecord, jobs: Iterable[JobRecord], lease: Lease) -> float:
    """When the last rank of a node that has been silent since the hold began has been stopped by its shim, of any job
    that may be started again; UTC seconds, infinite where a job is never fenced."""
    own = [job.spec.get("recovery", {}).get("fenceAfter") for job in jobs]
    fences = [lease.fence if not one else math.inf if one == "never" else parse_duration(one) for one in own]
    return (cluster.held_since or 0.0) + max([lease.fence, *fences]) + lease.margin


def release(w: Writer) -> None:
    """Nodes without anything undecided are told again what they should have; the whole cluster goes on. Jobs of a
    database that went back go beyond every epoch that they may have had since."""
    undecided = {one.node for one in w.strays() if not one.discarded and one.report.phase != WorkerPhase.EXITED}
    for node in w.nodes():
        if node.held and node.name not in undecided:
            w.patch_node(node.name, held=False)
    cluster = w.cluster()
    if cluster.held_since is None:
        return
    for job in w.jobs(live_only=True):
        w.patch_job(job.uid, epoch_floor=max(job.epoch_floor, job.epoch + EPOCHS_LOST))
    w.put_cluster(replace(cluster, held_since=None, held_why=""), before=cluster.incarnation)
