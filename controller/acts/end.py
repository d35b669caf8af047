"""The end of an attempt: verdict, what follows for the job, the incident, the books, in one transaction."""

from collections.abc import Callable, Sequence

from controller.acts.charging import charge_queue
from controller.acts.log import job_event
from controller.acts.measurements import record_measurements
from controller.acts.notify import notify
from controller.records import AttemptRecord, IncidentRecord, JobRecord, Verdict, WorkerRecord
from controller.recovery.before import with_history
from controller.recovery.checkpoints import choose, redone_steps
from controller.recovery.decide import decide
from controller.recovery.outcome import Outcome, outcome
from controller.recovery.shared import WINDOW, with_shared_cause
from controller.recovery.types import FailureCase
from controller.scheduling.discipline.programs import learned, program_of, service, uid_of
from controller.state.writing import Writer
from muster.evidence import Source
from muster.reasons import ENDS, Budget, End, Held
from muster.states import JOB_TERMINAL, AttemptPhase, JobPhase

HISTORY = 20


def write_end(
    w: Writer,
    job: JobRecord,
    attempt: AttemptRecord,
    workers: Sequence[WorkerRecord],
    reason: End | None,
    *,
    now: float,
    new_id: Callable[[], str],
) -> None:
    """Every worker is terminal. `reason` is None where only the evidence can tell."""
    for worker in workers:
        w.release_worker(worker.uid)
    record_measurements(w, job, attempt, workers, now=now, new_id=new_id)
    charge_queue(w, job, attempt, workers, now)
    if reason is None:
        _end_by_verdict(w, job, attempt, workers, now=now, new_id=new_id)
    else:
        _end_on_purpose(w, job, attempt, workers, reason, now, _ran_from(workers))


def _ran_from(workers: Sequence[WorkerRecord]) -> float | None:
    """When the first of them ran, also where the gang was never seen running as a whole."""
    return min((worker.running_at for worker in workers if worker.running_at is not None), default=None)


def _end_on_purpose(
    w: Writer,
    job: JobRecord,
    attempt: AttemptRecord,
    workers: Sequence[WorkerRecord],
    reason: End,
    now: float,
    ran_from: float | None,
) -> None:
    """Success, and every stop that somebody asked for. No verdict is needed and no budget is touched."""
    progressed = attempt.last_step is not None and (job.best_step is None or attempt.last_step > job.best_step)
    target, why, message = _after(reason, attempt, progressed)
    w.move_attempt(
        attempt.uid,
        AttemptPhase.ENDED,
        reason=reason,
        ended_at=now,
        decided_at=now,
        running_at=attempt.running_at or ran_from,
    )
    attained = _learn(w, job, attempt, workers, target, now)
    finished = now if target in (JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED) else None
    job = w.move_job(
        job.uid,
        target,
        reason=why,
        message=message,
        attempt_uid=None,
        restart_requested=False,
        best_step=_best(job, attempt),
        attained=attained,
        started_at=job.started_at or ran_from,
        finished_at=finished,
    )
    job_event(w, job, str(reason), message or f"attempt {attempt.number} ended: {reason}", now)
    if reason in (End.RESIZED, End.MIGRATED) and job.spec.get("checkpoint"):
        _tell_saved(w, job, attempt, now)
    if target in _NOTIFIED:
        notify(w, job, _NOTIFIED[target], now=now, message=message)


def _tell_saved(w: Writer, job: JobRecord, attempt: AttemptRecord, now: float) -> None:
    """Whether the gang used its grace: a complete checkpoint as new as its last step, in the stock that came with its end."""
    newest = choose(w.checkpoints(job.uid), directory=job.spec["checkpoint"]["directory"])
    redone = redone_steps(attempt.last_step, newest)
    began = attempt.resume.step if attempt.resume else -1
    if newest is not None and not redone and (attempt.last_step is not None or newest.step > began):
        job_event(w, job, "Saved", f"goes on from step {newest.step}", now)
    else:
        where = f"goes on from step {newest.step}" if newest else "begins anew"
        lost = f", {redone} steps are done again" if redone else ""
        job_event(
            w, job, "NotSaved", f"no new checkpoint came within its grace; it {where}{lost}", now, level="warning"
        )


_NOTIFIED = {JobPhase.SUCCEEDED: "succeeded", JobPhase.FAILED: "failed", JobPhase.CANCELLED: "cancelled"}


def _after(reason: End, attempt: AttemptRecord, progressed: bool) -> tuple[JobPhase, str, str]:
    """(the job's phase, its reason, the sentence) after an end that needs no verdict."""
    match reason:
        case End.SUCCEEDED:
            return JobPhase.SUCCEEDED, "", "every worker exited with 0"
        case End.CANCELLED:
            return JobPhase.CANCELLED, "", "cancelled by its user"
        case End.SUSPENDED:
            return JobPhase.SUSPENDED, Held.BY_USER, "suspended by its user"
        case End.TIME_LIMIT if not progressed:
            return JobPhase.FAILED, str(reason), f"{attempt.message}, and no new step was saved in it"
        case _:
            return JobPhase.QUEUED, "", f"attempt {attempt.number} ended: {attempt.message or reason}"


def _end_by_verdict(
    w: Writer,
    job: JobRecord,
    attempt: AttemptRecord,
    workers: Sequence[WorkerRecord],
    *,
    now: float,
    new_id: Callable[[], str],
) -> None:
    case = _case(w, job, attempt, workers)
    verdict = _alone(w, with_history(decide(case, now), attempt, case.history), job, now)
    follows = outcome(verdict, case)
    failed_at = _failed_at(attempt, case)
    cost = _cost(attempt, failed_at, now)
    opened = failed_at or attempt.detected_at or now
    w.move_attempt(
        attempt.uid,
        AttemptPhase.ENDED,
        reason=follows.end,
        message=verdict.why,
        verdict=verdict,
        failed_at=failed_at,
        ended_at=now,
        decided_at=now,
    )
    incident = IncidentRecord(
        uid=new_id(),
        job_uid=job.uid,
        namespace=job.namespace,
        job_name=job.name,
        attempt_uid=attempt.uid,
        verdict=verdict,
        opened_at=opened,
        closed_at=now if follows.next is not JobPhase.RECOVERING else None,
        cost=cost,
    )
    if follows.end is not End.SUCCEEDED:
        w.insert_incident(incident)
    attained = _learn(w, job, attempt, workers, follows.next, now)
    _job_goes_on(w, job, attempt, verdict, follows, attained, _ran_from(workers), now)


def _alone(w: Writer, verdict: Verdict, job: JobRecord, now: float) -> Verdict:
    """The verdict beside those of other jobs of the last minutes."""
    recent = w.incidents(since=now - WINDOW)
    names = {name for one in recent for name in one.verdict.culprit_nodes} | set(verdict.culprit_nodes)
    nodes = {name: node for name in sorted(names) if (node := w.node(name)) is not None}
    return with_shared_cause(verdict, job.uid, recent, nodes, now)


def _job_goes_on(
    w: Writer,
    job: JobRecord,
    attempt: AttemptRecord,
    verdict: Verdict,
    follows: Outcome,
    attained: float,
    ran_from: float | None,
    now: float,
) -> None:
    finished = now if follows.next in JOB_TERMINAL else None
    progressed = _best(job, attempt) != job.best_step
    counts = ENDS[follows.end] is not Budget.NONE and follows.next is JobPhase.RECOVERING
    if follows.next is not job.phase:
        w.move_job(job.uid, follows.next)
    job = w.patch_job(
        job.uid,
        reason=follows.held_reason or (str(follows.end) if follows.next is JobPhase.FAILED else ""),
        message=verdict.why,
        attempt_uid=None,
        best_step=_best(job, attempt),
        no_progress=0 if progressed else job.no_progress + 1,
        last_failure=verdict.fingerprint,
        restarts=job.restarts + counts,
        attained=attained,
        preferred=follows.preferred,
        excluded=follows.excluded,
        started_at=job.started_at or ran_from,
        finished_at=finished,
        recovering_since=now if follows.next is JobPhase.RECOVERING else None,
    )
    done = follows.next is JobPhase.SUCCEEDED
    job_event(w, job, str(follows.end), verdict.why, now, level="normal" if done else "warning")
    event = {**_NOTIFIED, JobPhase.SUSPENDED: "held", JobPhase.RECOVERING: "restarted"}[follows.next]
    notify(w, job, event, now=now, message=verdict.why)


def _case(w: Writer, job: JobRecord, attempt: AttemptRecord, workers: Sequence[WorkerRecord]) -> FailureCase:
    earlier = [other for other in w.attempts(job.uid) if other.scope == attempt.scope and other.number < attempt.number]
    nodes = {name: node for name in {worker.node for worker in workers} if (node := w.node(name)) is not None}
    return FailureCase(
        job=job,
        attempt=attempt,
        workers=tuple(workers),
        nodes=nodes,
        evidence=tuple(w.evidence(attempt.uid)),
        history=tuple(reversed(earlier))[:HISTORY],
    )


def _failed_at(attempt: AttemptRecord, case: FailureCase) -> float | None:
    """A lost node failed when it was last heard of, however early its peers noticed."""
    silent = [item.at for item in case.evidence if item.source is Source.NODE]
    times = [*silent, *([attempt.failed_at] if attempt.failed_at else [])]
    return min(times, default=None)


def _cost(attempt: AttemptRecord, failed_at: float | None, now: float) -> dict[str, float]:
    """Seconds: from the failure to its detection, to the last confirmed death and the verdict."""
    detected = attempt.detected_at or now
    return {"detect": max(0.0, detected - (failed_at or detected)), "stop": max(0.0, now - detected)}


def _learn(
    w: Writer, job: JobRecord, attempt: AttemptRecord, workers: Sequence[WorkerRecord], target: JobPhase, now: float
) -> float:
    """The service that the job has had by now; of a job that has succeeded it is kept under its program's name."""
    devices = sum(len(worker.devices) for worker in workers)
    attained = job.attained + service(job.spec, len(workers), devices, now - attempt.placed_at)
    if target is JobPhase.SUCCEEDED:
        record = learned(w.program(uid_of(job.namespace, program_of(job))), job, attained)
        if record is not None:
            w.put_program(record)
    return attained


def _best(job: JobRecord, attempt: AttemptRecord) -> int | None:
    steps = [step for step in (job.best_step, attempt.last_step) if step is not None]
    return max(steps, default=None)
