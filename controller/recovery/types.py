"""The recovery room's data: a failed attempt with its evidence in, a verdict out.

    verdict = decide(case, now) -> Verdict        (controller.recovery.decide)
    resume  = choose(checkpoints, ...) -> ResumePoint | None   (controller.recovery.checkpoints)

Pure: no clock, no randomness, no I/O.
"""

from msgspec import Struct

from controller.records import AttemptRecord, JobRecord, NodeRecord, WorkerRecord
from muster.evidence import Evidence


class FailureCase(Struct, frozen=True, kw_only=True):
    """Everything known of one ended attempt. `history` are earlier attempts of the same scope, newest first."""

    job: JobRecord
    attempt: AttemptRecord
    workers: tuple[WorkerRecord, ...]
    nodes: dict[str, NodeRecord]
    evidence: tuple[Evidence, ...]
    history: tuple[AttemptRecord, ...] = ()
