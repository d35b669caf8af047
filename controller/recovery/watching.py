"""How an attempt gets on, and when its silence is longer than its own times allow. Pure.

A sign of progress is a new highest step, or that a phase begins. What is learned are the silences between signs, as they
reached the controller: however a program steps and reports, those of a healthy run are alike. They are learned for each
phase by its name, and handed on to the next attempt of the job.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from msgspec.structs import replace

from controller.records import AttemptRecord, JobRecord, Watch
from muster.protocol import ProgressPoint
from muster.quantity import parse_duration
from muster.states import AttemptPhase

TRAIN: Final = "train"
START: Final = "start"
STEPPING: Final = ("", TRAIN, "training")
KEPT: Final = 64
"""Silences that are remembered of a phase, the newest."""
ENOUGH: Final = 4
"""Silences of training after which its pace is known."""
UNKNOWN: Final = 1800.0
"""Seconds that a phase may take of which nothing is known yet."""
FLOORS: Final[Mapping[str, float]] = {TRAIN: 120.0}
OTHER_FLOOR: Final = 300.0
"""Seconds of silence that are never too long, so that no hiccup is taken for a hang."""
USUAL, LONGEST = 10.0, 3.0
"""A silence is too long from so many times the usual one on, and from so many times the longest one."""
PATIENCE: Final = 15.0
"""Seconds that a look at all ranks may take."""


def heard(watch: Watch | None, attempt: AttemptRecord, points: Sequence[ProgressPoint], now: float) -> Watch | None:
    """The watch after a report; None when the report holds no sign of progress. `now`: of its arrival."""
    best = attempt.last_step if attempt.last_step is not None else -1
    before = watch or Watch(since=attempt.running_at or now)
    after, moved = before, False
    for point in sorted(points, key=lambda one: (one.at, one.step)):
        phase = named(point.phase)
        if point.mark:
            if phase != after.phase:
                after, moved = _turn(after, attempt, phase, now), True
        elif point.step > best:
            best, moved = point.step, True
            own = phase if point.phase else TRAIN
            after = _turn(after, attempt, own, now) if own != after.phase else after
    if not moved:
        return None
    if after.phase == before.phase and after.phase == TRAIN and before.at:
        after = _learned(after, TRAIN, now - before.at)
    return replace(after, at=now, suspect=None)


def named(phase: str) -> str:
    return TRAIN if phase.lower() in STEPPING else phase.lower()


def _turn(watch: Watch, attempt: AttemptRecord, phase: str, now: float) -> Watch:
    """Another phase begins; how long the one before took is learned."""
    began = watch.since or attempt.running_at or now
    learned = watch if watch.phase == TRAIN else _learned(watch, watch.phase, now - began)
    return replace(learned, phase=phase, since=now)


def _learned(watch: Watch, phase: str, seconds: float) -> Watch:
    kept = (*watch.paces.get(phase, ()), round(max(0.0, seconds), 3))[-KEPT:]
    return replace(watch, paces={**watch.paces, phase: kept})


def limit(spec: Mapping[str, Any], watch: Watch) -> float | None:
    """Seconds of silence that are too long now; None: it may be silent for ever."""
    wanted = spec.get("recovery", {}).get("hangAfter", "auto")
    if isinstance(wanted, dict):
        wanted = wanted.get(watch.phase, "auto")
    elif watch.phase == START and wanted != "never":
        wanted = "auto"  # how long a start takes says nothing of a step
    if wanted == "never":
        return None
    if wanted != "auto":
        return parse_duration(wanted)
    known = watch.paces.get(watch.phase, ())
    if not known or (watch.phase == TRAIN and len(known) < ENOUGH):
        return UNKNOWN
    return max(FLOORS.get(watch.phase, OTHER_FLOOR), USUAL * median(known), LONGEST * max(known))


def due(job: JobRecord, attempt: AttemptRecord) -> float | None:
    """When its silence is too long, UTC seconds; None: it is not watched."""
    if attempt.phase is not AttemptPhase.RUNNING or attempt.running_at is None:
        return None
    watch = attempt.watch or Watch()
    if watch.suspect is not None:
        return watch.suspect.at + PATIENCE
    if not watched(job.spec, attempt, watch, job.best_step):
        return None
    seconds = limit(job.spec, watch)
    return None if seconds is None else max(watch.at, watch.since, attempt.running_at) + seconds


def watched(spec: Mapping[str, Any], attempt: AttemptRecord, watch: Watch, best_step: int | None) -> bool:
    """Whether it is known to show progress at all: a server or a notebook never does, and is never taken to hang."""
    if watch.at or attempt.last_step is not None or best_step is not None or watch.paces:
        return True
    wanted = spec.get("recovery", {}).get("hangAfter", "auto")
    return bool(spec.get("progress")) or (isinstance(wanted, dict) and START in wanted)


def inherited(watch: Watch | None) -> Watch | None:
    """What the next attempt knows from the one before it."""
    return Watch(paces=watch.paces) if watch is not None and watch.paces else None
