"""Which checkpoint to resume from, and what that costs."""

from collections.abc import Sequence

from controller.records import CheckpointRecord, ResumePoint


def choose(checkpoints: Sequence[CheckpointRecord], *, directory: str) -> ResumePoint | None:
    """The newest complete checkpoint below `directory`, by step, then by when it was seen. A half-written one is
    passed over, however new."""
    below = directory.rstrip("/") + "/"
    complete = [one for one in checkpoints if one.complete and (one.path + "/").startswith(below)]
    best = max(complete, key=lambda one: (one.step, one.created_at, one.path), default=None)
    return ResumePoint(path=best.path, step=best.step, checkpoint_uid=best.uid) if best else None


def redone_steps(last_step: int | None, resume: ResumePoint | None) -> int:
    """Steps that were done and are done again: everything after the checkpoint."""
    return max(0, (last_step or 0) - (resume.step if resume else 0))
