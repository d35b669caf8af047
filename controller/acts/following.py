"""What a report of progress says beside its steps: signs of life for the watch, and a loss that is strange."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from controller.acts.log import job_event
from controller.records import AttemptRecord, Watch
from controller.recovery import losses, watching
from controller.state.writing import Writer
from muster.evidence import Evidence, Source
from muster.protocol import ProgressPoint

WORDS = {
    "nan": "its loss is not a number any more",
    "inf": "its loss is infinite",
    "-inf": "its loss is infinite",
    "jump": "its loss has jumped far out of its range",
}


def follow(w: Writer, attempt: AttemptRecord, points: Sequence[ProgressPoint], now: float) -> dict[str, Any]:
    """The fields of the attempt that change."""
    watch = watching.heard(attempt.watch, attempt, points, now)
    after = _losses(w, attempt, watch or attempt.watch or Watch(), points, now)
    return {} if watch is None and after == (attempt.watch or Watch()) else {"watch": after}


def _losses(w: Writer, attempt: AttemptRecord, watch: Watch, points: Sequence[ProgressPoint], now: float) -> Watch:
    kept, told = watch.losses, watch.told
    for point in sorted(points, key=lambda one: (one.step, one.rank or 0)):
        what = losses.strange(kept, point.loss, point.bad)
        if what and what not in told:
            told = (*told, what)
            _tell(w, attempt, point, what, now)
        if what != "jump":
            kept = losses.remembered(kept, point.loss)
    return replace(watch, losses=kept, told=told)


def _tell(w: Writer, attempt: AttemptRecord, point: ProgressPoint, what: str, now: float) -> None:
    value = point.bad or f"{point.loss:g}"
    text = f"{WORDS[what]}: {value} at step {point.step}" + ("" if point.rank is None else f" of rank {point.rank}")
    seen = Evidence(source=Source.PROGRESS, at=point.at, attempt=attempt.uid, rank=point.rank, text=text,
                    data={"loss": value, "step": point.step, "strange": what})  # fmt: skip
    w.add_evidence([seen])
    job = w.job(attempt.job_uid)
    if job is not None:
        job_event(w, job, "LossStrange", text, now, level="warning")
