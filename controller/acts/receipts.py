"""What a finished job cost, put on record: for its user, for the accounts, and as the post-mortem that outlives it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from controller.acts.postmortem import postmortem
from controller.records import AttemptRecord, JobRecord, ReceiptRecord, WorkerRecord
from controller.recovery.goodput import Books, Slice, books, totals
from controller.state import Reading
from controller.state.store import Store
from controller.state.types import LeaderLease

BATCH: Final = 100
SLICES: Final = 500
"""Kept in one receipt; of a job with more, those of one attempt and bucket become one each, in the order of its first."""


def write_receipts(store: Store, guard: LeaderLease, *, now: float) -> int:
    """Of finished jobs that have none; how many were written. Whoever leads next goes on with the rest."""
    with store.read() as r:
        jobs = r.without_receipt(BATCH)
        written = [receipt_of(r, job, now) for job in jobs]
    if written:
        with store.write(guard) as w:
            for receipt in written:
                w.put_receipt(receipt)
    return len(written)


def receipt_of(r: Reading, job: JobRecord, now: float) -> ReceiptRecord:
    """Of a finished job, or of one that lives, up to `now`."""
    attempts = r.attempts(job.uid)
    workers = r.workers_of([attempt.uid for attempt in attempts])
    kept = _books(r, job, attempts, workers, now)
    slices = [one for scope in kept for one in scope.slices]
    restarts = [one for scope in kept for one in scope.restarts]
    spec = job.spec
    body = {
        "slices": [msgspec.to_builtins(one) for one in _shorter(slices)],
        "restarts": [msgspec.to_builtins(one) for one in restarts],
        "attempts": [_attempt(attempt, workers.get(attempt.uid, ())) for attempt in attempts],
        "message": job.message,
        "postmortem": postmortem(r, job),
    }
    return ReceiptRecord(
        uid=job.uid,
        namespace=job.namespace,
        name=job.name,
        queue=str(spec.get("queue") or "default"),
        user=job.user,
        accelerator=_kind(spec),
        devices=max((len(_devices(workers.get(attempt.uid, ()))) for attempt in attempts), default=_wanted(spec)),
        outcome=str(job.phase),
        created_at=job.created_at,
        finished_at=job.finished_at if job.finished_at is not None else now,
        restarts=len(restarts),
        body=body,
        **{bucket.value: seconds for bucket, seconds in totals(slices).items()},
    )


def _books(
    r: Reading,
    job: JobRecord,
    attempts: Sequence[AttemptRecord],
    workers: Mapping[str, Sequence[WorkerRecord]],
    now: float,
) -> list[Books]:
    """Of each restart scope; a job that never had an attempt has one that waits."""
    scopes: dict[str, list[AttemptRecord]] = defaultdict(list)
    for attempt in attempts:
        scopes[attempt.scope].append(attempt)
    held = {attempt.uid: len(_devices(workers.get(attempt.uid, ()))) for attempt in attempts}
    found = []
    for mine in scopes.values() or [[]]:
        progress = {attempt.uid: r.progress(attempt.uid, 2_000) for attempt in mine}
        wanted = max((held[attempt.uid] for attempt in mine), default=_wanted(job.spec))
        found.append(books(job, mine, wanted=wanted, devices=held, progress=progress, now=now))
    return found


def _shorter(slices: Sequence[Slice]) -> Sequence[Slice]:
    if len(slices) <= SLICES:
        return slices
    sums: dict[tuple[int | None, str], list[Slice]] = defaultdict(list)
    for one in slices:
        sums[one.attempt, one.bucket].append(one)
    short, at = [], slices[0].began
    for mine in sums.values():
        end = at + sum(one.ended - one.began for one in mine)
        short.append(msgspec.structs.replace(mine[0], began=at, ended=end))
        at = end
    return short


def _attempt(attempt: AttemptRecord, workers: Sequence[WorkerRecord]) -> dict[str, Any]:
    verdict = attempt.verdict
    return {
        "number": attempt.number,
        "reason": None if attempt.reason is None else str(attempt.reason),
        "message": attempt.message,
        "nodes": sorted({worker.node for worker in workers}),
        "category": verdict.category if verdict else None,
        "action": verdict.action if verdict else None,
        "why": verdict.why if verdict else None,
        "culprits": list(verdict.culprit_nodes) if verdict else [],
    }


def _devices(workers: Sequence[WorkerRecord]) -> list[tuple[str, int]]:
    return [(worker.node, device) for worker in workers for device in worker.devices]


def _kind(spec: dict[str, Any]) -> str:
    kinds = spec.get("accelerators") or []
    return str(kinds[0]["type"]) if kinds else ""


def _wanted(spec: dict[str, Any]) -> int:
    kinds = spec.get("accelerators") or []
    workers = int(spec.get("workers") or 1)
    return int((kinds[0].get("workers") or workers) * kinds[0]["count"]) if kinds else 0
