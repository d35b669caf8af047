"""What agents tell goes into the store. Stale epochs and impossible moves are ignored, repeats do no harm, and one bad
value never holds up the rest: an agent repeats a report until it is acknowledged."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import structlog
from msgspec.structs import replace

from api.health import has_conditions, has_result
from api.observing import observe, sound_time
from api.registration import has
from api.services import Services
from controller.acts.following import follow
from controller.records import AttemptRecord
from controller.state import BadValue, Writer
from muster.evidence import Evidence
from muster.protocol import CheckpointItem, ProgressPoint, Report, TaskResult, WorkerReport
from muster.states import AttemptPhase

log = structlog.get_logger("muster.api")

_LARGEST: Final = 2**62
Part = Callable[[Writer], bool]
"""One piece of a report. True when the loop should look at once."""


def record(here: Services, node: str, report: Report) -> None:
    """The whole report in one transaction; piece by piece when a value in it cannot be kept."""
    parts = _parts(node, report, here.clock.now())
    try:
        _write(here, parts)
    except BadValue:
        for part in parts:
            try:
                _write(here, [part])
            except BadValue as error:
                log.warning("a part of a report cannot be kept", node=node, seq=report.seq, error=str(error))


def _write(here: Services, parts: list[Part]) -> None:
    writers: list[Writer] = []

    def act(w: Writer) -> bool:
        writers.append(w)
        news = [part(w) for part in parts]
        return any(news)

    if here.store.transact(act):
        here.told(writers[-1].revision)


def _parts(node: str, report: Report, now: float) -> list[Part]:
    parts: list[Part] = [_worker_part(node, one) for one in report.workers]
    evidence = [one for one in report.evidence if sound_time(one.at)]
    if evidence:
        parts.insert(0, lambda w: _evidence(w, node, evidence))
    parts += [_progress_part(node, uid, points, now) for uid, points in report.progress.items()]
    parts += [_stock_part(node, uid, items) for uid, items in report.checkpoints.items()]
    if (inventory := report.inventory) is not None:
        parts.append(lambda w: has(w, node, inventory))
    if (conditions := report.conditions) is not None:
        parts.append(lambda w: has_conditions(w, node, conditions, now))
    parts += [_result_part(node, one) for one in report.results]
    return parts


def _result_part(node: str, result: TaskResult) -> Part:
    return lambda w: has_result(w, node, result)


def _worker_part(node: str, report: WorkerReport) -> Part:
    return lambda w: observe(w, node, report)


def _progress_part(node: str, uid: str, points: Iterable[ProgressPoint], now: float) -> Part:
    return lambda w: _progress(w, node, uid, points, now)


def _stock_part(node: str, uid: str, items: Iterable[CheckpointItem]) -> Part:
    return lambda w: _stock(w, node, uid, items)


def _evidence(w: Writer, node: str, items: Iterable[Evidence]) -> bool:
    """Only of attempts that have a worker on this node, and always in this node's name."""
    kept = [
        replace(one, node=node)
        for uid in sorted({one.attempt for one in items})
        if _attempt(w, node, uid) is not None
        for one in items
        if one.attempt == uid
    ]
    for one in kept:
        _fingerprint(w, one)
    return w.add_evidence([one for one in kept if "fingerprint" not in one.data]) > 0


def _fingerprint(w: Writer, item: Evidence) -> None:
    """What the attempt runs belongs to its record, not to the evidence of its end."""
    told = item.data.get("fingerprint")
    if isinstance(told, dict):
        found = {str(name)[:32]: str(text)[:200] for name, text in list(told.items())[:8]}
        attempt = w.attempt(item.attempt)
        if attempt is not None and attempt.phase is not AttemptPhase.ENDED and attempt.fingerprint != found:
            w.patch_attempt(item.attempt, fingerprint=found)


def _progress(w: Writer, node: str, uid: str, points: Iterable[ProgressPoint], now: float) -> bool:
    """The loop need not hurry: it finds the new step when it looks next."""
    attempt = _attempt(w, node, uid)
    heard_of = [one for one in points if -1 <= one.step < _LARGEST and sound_time(one.at)]
    if attempt is None or not heard_of:
        return False
    sound = [one for one in heard_of if one.step >= 0]
    w.add_progress(uid, sound)
    steps = [one.step for one in sound if not one.mark]
    fields = follow(w, attempt, heard_of, now)
    if not steps:
        _patch(w, attempt, fields)
        return False
    if attempt.first_step is None:
        fields["first_step"] = min(steps)
    if attempt.last_step is None or max(steps) > attempt.last_step:
        fields["last_step"] = max(steps)
        losses = [one.loss for one in sound if one.step == max(steps) and one.loss is not None]
        fields["loss"] = losses[0] if losses else attempt.loss
    _patch(w, attempt, fields)
    return False


def _patch(w: Writer, attempt: AttemptRecord, fields: dict[str, Any]) -> None:
    if fields and attempt.phase is not AttemptPhase.ENDED:
        w.patch_attempt(attempt.uid, **fields)


def _stock(w: Writer, node: str, uid: str, items: Iterable[CheckpointItem]) -> bool:
    attempt = _attempt(w, node, uid)
    if attempt is None:
        return False
    sound = [
        one for one in items if 0 <= one.step < _LARGEST and 0 <= one.size < _LARGEST and sound_time(one.modified_at)
    ]
    return w.put_checkpoints(attempt.job_uid, uid, attempt.epoch, sound)


def _attempt(w: Writer, node: str, uid: str) -> AttemptRecord | None:
    """None, and a line in the log, when the attempt has no worker on this node."""
    attempt = w.attempt(uid)
    if attempt is not None and any(worker.node == node for worker in w.workers(uid)):
        return attempt
    log.warning("a report about an attempt that this node has no part of", node=node, attempt=uid)
    return None
