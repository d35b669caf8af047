"""The same end again and again: what counts as progress, and when it stops.

A step that no attempt had made before is progress. A job that reports no steps cannot show any, so there an attempt
counts as progress that ran for `LONG_RUN`.
"""

from collections.abc import Iterator
from itertools import chain

from controller.records import AttemptRecord, Verdict
from controller.recovery.types import FailureCase
from muster.reasons import End

LONG_RUN = 600.0
"""Seconds."""
INFRASTRUCTURE = ("node_lost", "worker_vanished")
"""Categories of ends that say nothing of the program; a start that was refused says nothing, either."""
_PASSED_OVER = (End.PREEMPTED, End.RESIZED, End.MIGRATED, End.DRAINED, End.NODE_LOST, End.WORKER_VANISHED)
_NEW_START = (End.SUSPENDED, End.HELD, End.SUPERSEDED, End.TIME_LIMIT)
"""Its user, or a limit of theirs, has come in between: what was before does not count any more."""


def same_ends(case: FailureCase, fingerprint: str) -> int:
    """How many attempts in a row ended like this one without a new step between two of their ends; 1 when this is the
    first."""
    count = 0
    for attempt, advanced in _attempts(case):
        if count and (attempt.verdict is None or attempt.verdict.fingerprint != fingerprint):
            break
        count += 1
        if advanced:
            break
    return count


def idle_attempts(case: FailureCase) -> int:
    """How many attempts in a row, this one included, made no new step at all, however each of them ended."""
    count = 0
    for _, advanced in _attempts(case):
        if advanced:
            break
        count += 1
    return count


def _attempts(case: FailureCase) -> Iterator[tuple[AttemptRecord, bool]]:
    """This attempt and those before it, newest first, each with whether it made progress; without the ends that say
    nothing of the program, up to where its user came in."""
    reports = any(attempt.last_step is not None for attempt in (case.attempt, *case.history))
    for index, attempt in enumerate(chain((case.attempt,), case.history)):
        if index and attempt.reason in _NEW_START:
            return
        advanced = _advanced(attempt, case.history[index:]) if reports else _ran(attempt) >= LONG_RUN
        if index and (_says_nothing(attempt.verdict) or attempt.reason in _PASSED_OVER) and not advanced:
            continue
        yield attempt, advanced


def _says_nothing(verdict: Verdict | None) -> bool:
    return verdict is not None and (
        verdict.category in INFRASTRUCTURE or verdict.fingerprint.startswith(("start:", "hardware:"))
    )


def _advanced(attempt: AttemptRecord, earlier: tuple[AttemptRecord, ...]) -> bool:
    best = max((other.last_step for other in earlier if other.last_step is not None), default=None)
    return attempt.last_step is not None and (best is None or attempt.last_step > best)


def _ran(attempt: AttemptRecord) -> float:
    """Seconds from its ranks' start to the first failure."""
    until = attempt.failed_at or attempt.stopping_at or attempt.ended_at
    return until - attempt.running_at if until and attempt.running_at else 0.0
