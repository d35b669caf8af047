"""A rank that is slow again and again is told of, once in each attempt."""

from collections.abc import Sequence

from msgspec.structs import replace

from controller.acts.log import job_event
from controller.records import AttemptRecord, JobRecord, Watch, WorkerRecord
from controller.recovery.stragglers import straggler
from controller.state.writing import Writer
from muster.evidence import Evidence, Source
from muster.states import AttemptPhase

LOOK = 10.0
"""Seconds between comparisons of one attempt."""
POINTS = 2000
TOLD = "straggler"


def compare(w: Writer, attempt_uid: str, now: float) -> bool:
    """True when something was written."""
    attempt = w.attempt(attempt_uid)
    job = w.job(attempt.job_uid) if attempt is not None else None
    if attempt is None or job is None or attempt.phase is not AttemptPhase.RUNNING:
        return False
    watch = attempt.watch or Watch()
    if any(one.startswith(TOLD) for one in watch.told):
        return False
    found = straggler(w.progress(attempt.uid, POINTS))
    if found is None:
        return False
    node = _node(w.workers(attempt.uid), found.rank)
    text = (
        f"rank {found.rank} on {node} needs {found.seconds:g} s for a step where the others need {found.others:g} s, "
        f"in {found.times} comparisons in a row"
    )
    w.patch_attempt(attempt.uid, watch=replace(watch, told=(*watch.told, f"{TOLD} {found.rank}")))
    w.add_evidence([Evidence(source=Source.PROGRESS, at=now, attempt=attempt.uid, node=node, rank=found.rank, text=text,
                             data={"straggler": found.rank, "seconds": found.seconds, "others": found.others})])  # fmt: skip
    job_event(w, job, "Straggler", text, now, level="warning")
    return True


def _node(workers: Sequence[WorkerRecord], rank: int) -> str:
    return next(
        (one.node for one in workers if one.template.first_rank <= rank < one.template.first_rank + one.template.ranks),
        "",
    )


def wants_it(job: JobRecord, attempt: AttemptRecord) -> bool:
    """Whether there can be anything to compare: several ranks that make steps."""
    told = attempt.watch.told if attempt.watch is not None else ()
    several = int(job.spec.get("workers", 1)) > 1 or int(job.spec.get("ranksPerWorker") or 1) > 1
    return attempt.last_step is not None and several and not any(one.startswith(TOLD) for one in told)
