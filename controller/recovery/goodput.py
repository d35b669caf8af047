"""PURE. The books of a job: what each second of its life went to, so that nothing is counted twice and nothing is missing.

A restart scope's life, from its submission to its end, is cut into slices that touch and do not overlap; each belongs to one
bucket. Productive is only what was kept: steps that a later attempt had to do again are lost. ETTR (effective training time
ratio) and the parts of a restart follow Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research
Clusters" (arXiv 2410.21680), with the first wait in the queue left out of the ratio and every later one in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from statistics import median
from typing import Final

from msgspec import Struct

from controller.records import AttemptRecord, JobRecord
from muster.protocol import ProgressPoint
from muster.reasons import ENDS, Budget, End


class Bucket(StrEnum):
    QUEUED = "queued"  # waiting, nothing held
    SUSPENDED = "suspended"  # on wish, nothing held
    STARTING = "starting"  # placed, up to the first step of a first attempt or of one after a stop on purpose
    PRODUCTIVE = "productive"  # steps that were kept
    LOST = "lost"  # steps that had to be done again
    RECOVERING = "recovering"  # from a failure to the first step after it
    STALLED = "stalled"  # no progress, before anybody knew that something was wrong
    SAVING = "saving"  # phases named save, and the grace of a stop on purpose


HELD: Final = tuple(bucket for bucket in Bucket if bucket not in (Bucket.QUEUED, Bucket.SUSPENDED))
"""Buckets that count in the ETTR."""

SAVE_PHASES: Final = frozenset({"save", "saving", "checkpoint"})
PACE: Final = 3.0
"""A silence before a failure is a stall when it is longer than so many usual steps."""


class Slice(Struct, frozen=True, kw_only=True):
    """UTC seconds. `attempt` is its number, None between attempts."""

    began: float
    ended: float
    bucket: Bucket
    devices: int
    attempt: int | None = None


class Restart(Struct, frozen=True, kw_only=True):
    """One failure, and what getting over it took. All in seconds; None where the time is not known (yet)."""

    attempt: int
    cause: str
    detect: float | None = None  # from the failure to the first evidence
    stop: float | None = None  # until every process of the gang was dead
    decide: float | None = None  # until the verdict
    place: float | None = None  # until the next attempt had its nodes
    launch: float | None = None  # until its ranks ran
    load: float | None = None  # until their first step
    redo: float = 0.0  # the time that the steps had taken that were done again


class Books(Struct, frozen=True):
    """Of one restart scope."""

    slices: tuple[Slice, ...]
    restarts: tuple[Restart, ...]


def books(
    job: JobRecord,
    attempts: Sequence[AttemptRecord],
    *,
    wanted: int,
    devices: Mapping[str, int],
    progress: Mapping[str, Sequence[ProgressPoint]],
    now: float,
) -> Books:
    """`attempts` of one scope; `wanted`: devices that it waits for, `devices` and `progress` (in the order of their time)
    by the attempt's uid. A job without devices is booked as if it held one, so that its time shows."""
    ordered = sorted(attempts, key=lambda attempt: attempt.number)
    end = max(job.finished_at if job.finished_at is not None else now, job.created_at)
    cutter = _Cutter(job.created_at, end, max(1, wanted))
    restarts: list[Restart] = []
    before: AttemptRecord | None = None
    for index, attempt in enumerate(ordered):
        after = ordered[index + 1] if index + 1 < len(ordered) else None
        points = progress.get(attempt.uid, ())
        _gap(cutter, job, before, attempt.placed_at)
        cutter.devices, cutter.attempt = max(1, devices.get(attempt.uid, wanted)), attempt.number
        lost = _attempt(cutter, attempt, before, after, points)
        cutter.devices, cutter.attempt = max(1, wanted), None
        if _failed(attempt):
            begun = progress.get(after.uid, ()) if after else ()
            restarts.append(_restart(attempt, after, begun[0].at if begun else None, lost))
        before = attempt
    _gap(cutter, job, before, end)
    return Books(tuple(cutter.slices), tuple(restarts))


def totals(slices: Iterable[Slice]) -> dict[Bucket, float]:
    """Device-seconds of each bucket."""
    sums = dict.fromkeys(Bucket, 0.0)
    for one in slices:
        sums[one.bucket] += (one.ended - one.began) * one.devices
    return sums


def ettr(sums: Mapping[Bucket, float]) -> float | None:
    """Productive over all that was held, 0 to 1; None before anything was."""
    held = sum(sums[bucket] for bucket in HELD)
    return sums[Bucket.PRODUCTIVE] / held if held else None


def mean_times(slices: Iterable[Slice], restarts: Sequence[Restart]) -> tuple[float | None, float | None]:
    """(MTTF, MTTR) in seconds: time at work for each failure, and from a failure to the next first step, redoing left
    out. None without a failure that is over."""
    worked = sum(
        one.ended - one.began for one in slices if one.bucket in (Bucket.PRODUCTIVE, Bucket.LOST, Bucket.SAVING)
    )
    repaired = sum(one.ended - one.began for one in slices if one.bucket is Bucket.RECOVERING)
    over = sum(restart.launch is not None for restart in restarts)
    return (worked / len(restarts) if restarts else None), (repaired / over if over else None)


class _Cutter:
    """Cuts slices one after the other; what would lie outside the job's life, or behind, is clipped to it."""

    def __init__(self, began: float, end: float, devices: int) -> None:
        self.at, self.end = began, end
        self.devices, self.attempt = devices, None
        self.slices: list[Slice] = []

    at: float
    devices: int
    attempt: int | None

    def cut(self, until: float | None, bucket: Bucket) -> None:
        """The time from here to `until` (None: unknown, nothing) goes to `bucket`."""
        until = self.at if until is None else min(max(until, self.at), self.end)
        if until > self.at:
            piece = Slice(began=self.at, ended=until, bucket=bucket, devices=self.devices, attempt=self.attempt)
            self.slices.append(piece)
            self.at = until


def _gap(cutter: _Cutter, job: JobRecord, before: AttemptRecord | None, until: float) -> None:
    """Between attempts nothing is held: waiting, on wish, or on the way back from a failure."""
    if before is not None and _failed(before) and job.phase != "Suspended":
        cutter.cut(until, Bucket.RECOVERING)
        return
    if before is not None and before.reason in (End.SUSPENDED, End.HELD):
        resumed = job.queued_at if job.queued_at > cutter.at and job.phase != "Suspended" else until
        cutter.cut(min(resumed, until), Bucket.SUSPENDED)
    cutter.cut(until, Bucket.SUSPENDED if job.phase == "Suspended" and until >= cutter.end else Bucket.QUEUED)


def _attempt(
    cutter: _Cutter,
    attempt: AttemptRecord,
    before: AttemptRecord | None,
    after: AttemptRecord | None,
    points: Sequence[ProgressPoint],
) -> float:
    """The seconds of it that were lost."""
    upto = attempt.ended_at if attempt.ended_at is not None else cutter.end
    failed = _failed(attempt)
    stop = min(next((at for at in _stops(attempt, failed) if at is not None), upto), upto)
    first = points[0].at if points else attempt.running_at
    cutter.cut(min(first if first is not None else stop, stop), _lead_in(before))
    lost = _work(cutter, attempt, after, [point for point in points if point.at <= stop], stop)
    if failed:
        cutter.cut(upto, Bucket.RECOVERING)
    elif attempt.reason is End.SUCCEEDED or attempt.reason is None:
        cutter.cut(upto, Bucket.PRODUCTIVE)
    else:
        cutter.cut(upto, Bucket.SAVING)
    return lost


def _stops(attempt: AttemptRecord, failed: bool) -> tuple[float | None, ...]:
    if failed:
        return attempt.failed_at, attempt.detected_at, attempt.stopping_at
    return (attempt.stopping_at,)


def _lead_in(before: AttemptRecord | None) -> Bucket:
    return Bucket.RECOVERING if before is not None and _failed(before) else Bucket.STARTING


def _work(
    cutter: _Cutter,
    attempt: AttemptRecord,
    after: AttemptRecord | None,
    points: Sequence[ProgressPoint],
    stop: float,
) -> float:
    """From the first step to the stop. The seconds that were lost."""
    kept = _kept_until(attempt, after, points, stop)
    silent = _silent_from(points, stop) if _failed(attempt) else stop
    saves = [(a.at, min(b.at, stop)) for a, b in pairwise(points) if a.phase in SAVE_PHASES]
    if points and points[-1].phase in SAVE_PHASES:
        saves.append((points[-1].at, silent))
    cuts = sorted({kept, silent, stop, *(time for save in saves for time in save)})
    lost = 0.0
    for until in cuts:
        begin = cutter.at
        if not begin < until <= stop:
            continue
        middle = (begin + until) / 2
        if middle > silent:
            bucket = Bucket.STALLED
        elif middle > kept:
            bucket = Bucket.LOST
        else:
            bucket = Bucket.SAVING if any(a <= middle < b for a, b in saves) else Bucket.PRODUCTIVE
        cutter.cut(until, bucket)
        lost += cutter.at - begin if bucket is Bucket.LOST else 0.0
    return lost


def _kept_until(
    attempt: AttemptRecord, after: AttemptRecord | None, points: Sequence[ProgressPoint], stop: float
) -> float:
    """When the step was reached from which the next attempt went on; without a next one all of it is kept."""
    if after is None:
        return stop
    if after.resume is None:
        return attempt.placed_at
    if not points:
        return stop
    return next((point.at for point in points if point.step >= after.resume.step), stop)


def _silent_from(points: Sequence[ProgressPoint], stop: float) -> float:
    """When the last step had to be followed by another, if it was not; else `stop`."""
    steps = [b.at - a.at for a, b in pairwise(points) if b.step > a.step]
    if not steps:
        return stop
    usual = median(steps)
    last = points[-1].at
    return last + usual if stop - last > PACE * usual else stop


def _restart(attempt: AttemptRecord, after: AttemptRecord | None, first_step: float | None, lost: float) -> Restart:
    times = (
        attempt.failed_at if attempt.failed_at is not None else attempt.detected_at,
        attempt.detected_at,
        attempt.ended_at,
        attempt.decided_at,
        after.placed_at if after else None,
        after.running_at if after else None,
        first_step,
    )
    parts = [None if a is None or b is None else max(0.0, b - a) for a, b in pairwise(times)]
    names = ("detect", "stop", "decide", "place", "launch", "load")
    cause = attempt.verdict.category if attempt.verdict else str(attempt.reason or "")
    return Restart(attempt=attempt.number, cause=cause, redo=lost, **dict(zip(names, parts, strict=True)))


def _failed(attempt: AttemptRecord) -> bool:
    """It ended, and nobody had asked for that."""
    return attempt.reason is not None and ENDS[attempt.reason] is not Budget.NONE
