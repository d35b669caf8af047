"""PURE. The way of one attempt from the submission to its running ranks, as spans of one trace.

The ids follow from the job and the epoch, so the API, a leader and its successor speak of the same trace without
telling each other.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from controller.records import AttemptRecord, JobRecord, WorkerRecord

ROOT: Final = "root"


class Span(Struct, frozen=True, kw_only=True):
    """`trace` 128 and `id`, `parent` 64 bits (parent 0: none); `start` and `end` UTC seconds."""

    name: str
    trace: int
    id: int
    parent: int
    start: float
    end: float
    attributes: dict[str, str | int] = {}


def trace_of(job_uid: str, epoch: int) -> int:
    return _number(16, job_uid, str(epoch))


def span_of(job_uid: str, epoch: int, name: str) -> int:
    return _number(8, job_uid, str(epoch), name)


def submitted(job_uid: str, namespace: str, name: str, start: float, end: float, request_id: str) -> Span:
    """The API's part: from the request's arrival to its acknowledgement. A job's first attempt has epoch 1."""
    what = {"muster.job": f"{namespace}/{name}", "muster.job.uid": job_uid, "muster.request": request_id}
    return _span("submit", job_uid, 1, start, end, what)


def started(job: JobRecord, attempt: AttemptRecord, workers: Sequence[WorkerRecord]) -> list[Span]:
    """The spans of an attempt that runs: waiting, preparing, spawning, and each worker's own. Times that are not known
    make no span."""
    uid, epoch = job.uid, attempt.epoch
    first = job.queued_at if attempt.number == 1 else (job.recovering_since or attempt.placed_at)
    began = min(first, attempt.placed_at)
    end = attempt.running_at or attempt.placed_at
    what: dict[str, str | int] = {
        "muster.job": f"{job.namespace}/{job.name}",
        "muster.job.uid": uid,
        "muster.attempt": attempt.number,
        "muster.attempt.uid": attempt.uid,
        "muster.epoch": epoch,
        "muster.queue": str(job.spec.get("queue", "default")),
    }
    root = Span(
        name="attempt",
        trace=trace_of(uid, epoch),
        id=span_of(uid, epoch, ROOT),
        parent=0,
        start=began,
        end=end,
        attributes=what,
    )
    parts: list[tuple[str, float | None, float | None]] = [
        ("wait", began, attempt.placed_at),
        ("prepare", attempt.placed_at, attempt.launching_at),
        ("spawn", attempt.launching_at, attempt.running_at),
    ]
    spans = [root, *(_span(name, uid, epoch, a, b, {}) for name, a, b in parts if a is not None and b is not None)]
    for worker in workers:
        if worker.running_at is not None:
            who = f"{worker.role}-{worker.index}"
            where: dict[str, str | int] = {"muster.worker": who, "muster.node": worker.node}
            spans.append(_span(f"worker {who}", uid, epoch, attempt.placed_at, worker.running_at, where))
    return spans


def _span(
    name: str, job_uid: str, epoch: int, start: float, end: float, attributes: dict[str, str | int] | dict[str, str]
) -> Span:
    return Span(
        name=name,
        trace=trace_of(job_uid, epoch),
        id=span_of(job_uid, epoch, name),
        parent=span_of(job_uid, epoch, ROOT),
        start=start,
        end=max(start, end),
        attributes=dict(attributes),
    )


def _number(size: int, *words: str) -> int:
    found = int.from_bytes(hashlib.sha256("\0".join(words).encode()).digest()[:size], "big")
    return found or 1  # OpenTelemetry takes 0 for none
