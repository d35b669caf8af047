"""What must be true of the cluster at every moment, each promise a function of its own.

Pure but for `observe`, which reads one snapshot. `broken` gives, for each promise that does not hold, a sentence for
each thing that breaks it. A database that only Muster writes never breaks one; `muster admin check` proves it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from controller.arrays import is_array
from controller.lifecycle import deadline, ended_badly
from controller.records import AttemptRecord, JobRecord, WorkerRecord
from controller.state.audit import LogSpan
from controller.state.changes import Reader
from controller.state.types import OutboxItem
from muster.quantity import parse_duration
from muster.reasons import Held
from muster.states import JOB_TERMINAL, WORKER_TERMINAL, AttemptPhase, JobPhase, WorkerPhase

SLACK: Final = 120.0
"""Seconds past a deadline before it counts as missed: a takeover, a full lease for each node, a slow machine."""

OUTBOX_SLACK: Final = 3600.0
"""Seconds past its time before an outbox item counts as forgotten: a broker may be away for long."""

OUTBOX_PAGE: Final = 1000
WITH_ATTEMPT: Final = frozenset({JobPhase.STARTING, JobPhase.RUNNING})


class Observed(Struct, frozen=True, kw_only=True):
    """One snapshot. `jobs`, `attempts` and `workers` are by uid: what lives, and jobs and workers of live attempts."""

    revision: int = 0
    held_since: float | None = None
    log: LogSpan = LogSpan(0, None, None)
    jobs: Mapping[str, JobRecord] = {}
    attempts: Mapping[str, AttemptRecord] = {}
    workers: Mapping[str, WorkerRecord] = {}
    renewed: Mapping[str, float] = {}
    """When each node last renewed its lease, UTC seconds."""
    devices: Mapping[tuple[str, int], str] = {}
    ports: Mapping[tuple[str, int], str] = {}
    ended_without_reason: tuple[AttemptRecord, ...] = ()
    finished_but_open: tuple[JobRecord, ...] = ()
    left_behind: tuple[WorkerRecord, ...] = ()
    due: tuple[OutboxItem, ...] = ()
    dead: tuple[OutboxItem, ...] = ()


def observe(r: Reader) -> Observed:
    revision, records = r.snapshot()
    return Observed(
        revision=revision,
        held_since=r.cluster().held_since,
        log=r.log_span(),
        jobs={one.uid: one for one in records if isinstance(one, JobRecord)},
        attempts={one.uid: one for one in records if isinstance(one, AttemptRecord)},
        workers={one.uid: one for one in records if isinstance(one, WorkerRecord)},
        renewed={lease.node: lease.renewed_at for lease in r.leases()},
        devices=r.devices_in_use(),
        ports=r.ports_held(),
        ended_without_reason=tuple(r.ended_without_reason()),
        finished_but_open=tuple(r.finished_but_open()),
        left_behind=tuple(r.workers_left_behind()),
        due=tuple(r.outbox_items("due", OUTBOX_PAGE)),
        dead=tuple(r.outbox_items("dead", OUTBOX_PAGE)),
    )


def devices_belong_to_live_attempts(seen: Observed, now: float) -> Iterable[str]:
    return _leaked(seen, "device", seen.devices)


def ports_belong_to_live_attempts(seen: Observed, now: float) -> Iterable[str]:
    return _leaked(seen, "port", seen.ports)


def workers_hold_what_they_were_given(seen: Observed, now: float) -> Iterable[str]:
    """Two workers of live attempts never have a device or a port in common, for each is held by one."""
    for worker in seen.workers.values():
        if worker.attempt_uid not in seen.attempts or worker.released:
            continue
        given = [("device", (worker.node, one), seen.devices) for one in worker.devices]
        given += [("port", (worker.host, one), seen.ports) for one in worker.ports]
        for what, key, held in given:
            if held.get(key) != worker.uid:
                yield f"{_worker(worker)} was given {what} {key[0]}:{key[1]}, which {held.get(key, 'nobody')} holds"


def who_succeeded_is_charged_for_nothing(seen: Observed, now: float) -> Iterable[str]:
    """A worker that ended well has given up its place, and counts towards the minimum of its gang."""
    given_up = Counter(one.attempt_uid for one in seen.workers.values() if one.released)
    for attempt in seen.attempts.values():
        if attempt.succeeded != given_up[attempt.uid]:
            told = f"counts {attempt.succeeded} workers that succeeded"
            yield f"attempt {attempt.uid} of {_job_of(attempt)} {told}, but {given_up[attempt.uid]} gave up their place"
    for one in seen.workers.values():
        live = seen.attempts.get(one.attempt_uid)
        going_on = live is not None and live.phase is not AttemptPhase.STOPPING
        if going_on and one.phase is WorkerPhase.EXITED and not one.released and not ended_badly(one):
            yield f"{_worker(one)} has succeeded and keeps its place"


def claims_are_waited_for(seen: Observed, now: float) -> Iterable[str]:
    """Whoever claims room is to have it, and somebody is still to make it."""
    for job in seen.jobs.values():
        if job.claim is None or job.phase in JOB_TERMINAL:
            continue
        if job.phase is JobPhase.SUSPENDED:
            yield f"job {_job(job)} is Suspended and claims room on {', '.join(job.claim.nodes)}"
        left = [uid for uid in job.claim.vacating if uid in seen.workers and not seen.workers[uid].released]
        if not left and now > (job.claim.deadline or job.claim.made_at) + SLACK:
            yield f"job {_job(job)} claims room on {', '.join(job.claim.nodes)}, which nobody is left to vacate"


def the_silent_are_lost_after_their_fence(seen: Observed, now: float) -> Iterable[str]:
    """Twice the slack: each new leader grants every node one more lease."""
    for worker in seen.workers.values():
        renewed = seen.renewed.get(worker.node)
        if worker.phase in WORKER_TERMINAL or worker.fence is None or renewed is None:
            continue
        if now > renewed + worker.fence + 2 * SLACK:
            yield f"{_worker(worker)} is {worker.phase}, but its node has been silent for {now - renewed:.0f} s"


def one_live_attempt_per_scope(seen: Observed, now: float) -> Iterable[str]:
    scopes: dict[tuple[str, str], str] = {}
    for attempt in seen.attempts.values():
        other = scopes.setdefault((attempt.job_uid, attempt.scope), attempt.uid)
        if other != attempt.uid:
            yield f"attempts {other} and {attempt.uid} of {_job_of(attempt)} are both live in {attempt.scope}"


def live_attempts_are_their_jobs(seen: Observed, now: float) -> Iterable[str]:
    """A live attempt is the one that its job names, carries its job's epoch, and its job is not finished."""
    for attempt in seen.attempts.values():
        job = seen.jobs.get(attempt.job_uid)
        if job is None or job.phase in JOB_TERMINAL:
            yield f"attempt {attempt.uid} is live, but {_job_of(attempt)} is {job.phase if job else 'gone'}"
        elif job.attempt_uid != attempt.uid or job.epoch != attempt.epoch:
            yield (
                f"attempt {attempt.uid} (epoch {attempt.epoch}) of {_job_of(attempt)} is live, but the job names "
                f"{job.attempt_uid} (epoch {job.epoch})"
            )


def jobs_that_run_have_an_attempt(seen: Observed, now: float) -> Iterable[str]:
    for job in seen.jobs.values():
        if is_array(job):
            continue  # its elements have theirs
        attempt = seen.attempts.get(job.attempt_uid or "")
        if attempt is None and (job.attempt_uid is not None or job.phase in WITH_ATTEMPT):
            yield f"job {_job(job)} is {job.phase} with attempt {job.attempt_uid}, which is not live"
        elif attempt is not None and job.phase not in WITH_ATTEMPT and not _is_ending(job, attempt):
            yield f"job {_job(job)} is {job.phase}, but its attempt {attempt.uid} is {attempt.phase}"


def live_attempts_have_workers(seen: Observed, now: float) -> Iterable[str]:
    with_workers = {worker.attempt_uid for worker in seen.workers.values()}
    for uid in seen.attempts.keys() - with_workers:
        yield f"attempt {uid} of {_job_of(seen.attempts[uid])} is live and has no workers"


def no_worker_outlives_its_attempt(seen: Observed, now: float) -> Iterable[str]:
    return (f"{_worker(one)} is {one.phase}, but its attempt has ended" for one in seen.left_behind)


def ended_attempts_have_reasons(seen: Observed, now: float) -> Iterable[str]:
    return (f"attempt {one.uid} of {_job_of(one)} has ended without reason" for one in seen.ended_without_reason)


def finished_jobs_are_closed(seen: Observed, now: float) -> Iterable[str]:
    return (f"job {_job(one)} is {one.phase}, but it is not closed" for one in seen.finished_but_open)


def nothing_is_past_its_deadline(seen: Observed, now: float) -> Iterable[str]:
    for attempt in seen.attempts.values():
        job = seen.jobs.get(attempt.job_uid)
        if job is not None and (at := _latest(seen, job, attempt)) is not None and now > at + SLACK:
            yield f"attempt {attempt.uid} of {_job(job)} is {attempt.phase} {now - at:.0f} s past its deadline"
    for job in seen.jobs.values():
        if job.phase is JobPhase.RECOVERING and job.recovering_since is not None and job.attempt_uid is None:
            at = job.recovering_since + parse_duration(job.spec.get("recovery", {}).get("recoveryTimeout", "10m"))
            if now > at + SLACK:
                yield f"job {_job(job)} is Recovering {now - at:.0f} s past its deadline"


def no_wish_waits_for_ever(seen: Observed, now: float) -> Iterable[str]:
    """What a user asked for is begun at once; how long it may take to stop is the attempt's deadline."""
    for job in seen.jobs.values():
        if job.wished_at is None or now <= job.wished_at + SLACK or not (wish := _open_wish(job)):
            continue
        attempt = seen.attempts.get(job.attempt_uid or "")
        if not is_array(job) and (attempt is None or attempt.phase is not AttemptPhase.STOPPING):
            yield f"job {_job(job)} is {job.phase}, {now - job.wished_at:.0f} s after its user asked to {wish} it"


def the_change_log_has_no_gap(seen: Observed, now: float) -> Iterable[str]:
    log = seen.log
    if log.oldest is None or log.newest is None:
        return
    if log.newest - log.oldest + 1 != log.entries:
        yield f"the change log has {log.entries} entries from revision {log.oldest} to {log.newest}"
    if log.newest != seen.revision:
        yield f"the change log ends at revision {log.newest}, but {seen.revision} were taken"


def no_record_is_ahead_of_the_log(seen: Observed, now: float) -> Iterable[str]:
    records: list[JobRecord | AttemptRecord | WorkerRecord] = [
        *seen.jobs.values(),
        *seen.attempts.values(),
        *seen.workers.values(),
    ]
    for one in records:
        if not 0 < one.revision <= seen.revision:
            yield f"{one.uid} was written at revision {one.revision} of {seen.revision}"


def the_outbox_is_in_order(seen: Observed, now: float) -> Iterable[str]:
    """Dead letters wait for an operator and break nothing, but each says why it died. What is due is being tried."""
    for item in seen.due:
        if now > item.next_at + OUTBOX_SLACK:
            yield f"outbox item {item.id} ({item.kind}) has been due for {now - item.next_at:.0f} s: is there a worker?"
        if item.done_at is not None:
            yield f"outbox item {item.id} is due and done"
    for item in seen.dead:
        if item.done_at is None or not item.tries or not item.error:
            yield f"outbox item {item.id} is dead, but does not say why or since when"


Invariant = Callable[[Observed, float], Iterable[str]]

INVARIANTS: Final[tuple[Invariant, ...]] = (
    devices_belong_to_live_attempts,
    ports_belong_to_live_attempts,
    workers_hold_what_they_were_given,
    who_succeeded_is_charged_for_nothing,
    claims_are_waited_for,
    the_silent_are_lost_after_their_fence,
    one_live_attempt_per_scope,
    live_attempts_are_their_jobs,
    jobs_that_run_have_an_attempt,
    live_attempts_have_workers,
    no_worker_outlives_its_attempt,
    ended_attempts_have_reasons,
    finished_jobs_are_closed,
    nothing_is_past_its_deadline,
    no_wish_waits_for_ever,
    the_change_log_has_no_gap,
    no_record_is_ahead_of_the_log,
    the_outbox_is_in_order,
)


def findings(seen: Observed, now: float) -> dict[str, list[str]]:
    """Every promise by name, with what breaks it. `now` in UTC seconds; time stands still while all is on hold."""
    if seen.held_since is not None:
        now = min(now, seen.held_since)
    return {check.__name__: sorted(check(seen, now)) for check in INVARIANTS}


def broken(seen: Observed, now: float) -> list[str]:
    return [f"{name}: {one}" for name, found in findings(seen, now).items() for one in found]


def _leaked(seen: Observed, what: str, held: Mapping[tuple[str, int], str]) -> Iterable[str]:
    for (place, number), uid in held.items():
        worker = seen.workers.get(uid)
        if worker is None or worker.attempt_uid not in seen.attempts:
            yield f"{what} {place}:{number} is held by worker {uid}, which is of no live attempt"
        elif worker.released:
            yield f"{what} {place}:{number} is held by {_worker(worker)}, which has been released"


def _latest(seen: Observed, job: JobRecord, attempt: AttemptRecord) -> float | None:
    """When something must have happened to this attempt; None where there is no such time."""
    if attempt.phase is not AttemptPhase.STOPPING:
        return deadline(job, attempt)
    left = [one for one in seen.workers.values() if one.attempt_uid == attempt.uid and one.phase not in WORKER_TERMINAL]
    if attempt.stopping_at is None or any(one.fence is None for one in left):
        return None
    return attempt.stopping_at + max((one.grace + 2 * (one.fence or 0.0) for one in left), default=0.0)


def _open_wish(job: JobRecord) -> str:
    """What its user asked for and it has not come to; empty when there is nothing."""
    if job.phase in JOB_TERMINAL:
        return ""
    if job.cancel:
        return "cancel"
    if job.suspend:
        return "" if job.phase is JobPhase.SUSPENDED else "suspend"
    if job.restart_requested:
        return "restart"
    return "resume" if job.phase is JobPhase.SUSPENDED and job.reason == Held.BY_USER else ""


def _is_ending(job: JobRecord, attempt: AttemptRecord) -> bool:
    """The job recovers already while the rest of its failed attempt is being stopped."""
    return job.phase is JobPhase.RECOVERING and attempt.phase is AttemptPhase.STOPPING


def _job(job: JobRecord) -> str:
    return f"{job.namespace}/{job.name}"


def _job_of(attempt: AttemptRecord) -> str:
    return f"{attempt.namespace}/{attempt.job_name}"


def _worker(worker: WorkerRecord) -> str:
    return f"worker {worker.role}-{worker.index} ({worker.uid}) on {worker.node}"
