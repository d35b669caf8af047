"""Which checkpoint to resume from, and what that costs."""

from collections.abc import Collection, Iterable, Sequence

from controller.records import AttemptRecord, CheckpointRecord, RestartFrom, ResumePoint


def choose(
    checkpoints: Sequence[CheckpointRecord], *, directory: str, avoid: Collection[str] = ()
) -> ResumePoint | None:
    """The newest complete checkpoint below `directory`, by step, then by when it was seen. A half-written one is
    passed over, however new, and so is every path in `avoid`."""
    below = directory.rstrip("/") + "/"
    complete = [
        one for one in checkpoints if one.complete and one.path not in avoid and (one.path + "/").startswith(below)
    ]
    best = max(complete, key=lambda one: (one.step, one.created_at, one.path), default=None)
    return ResumePoint(path=best.path, step=best.step, checkpoint_uid=best.uid) if best else None


def spoiled(attempts: Iterable[AttemptRecord]) -> frozenset[str]:
    """Paths of checkpoints that looked complete and from which an attempt could not start."""
    return frozenset(
        attempt.resume.path
        for attempt in attempts
        if attempt.resume and attempt.verdict and attempt.verdict.action == "previous_checkpoint"
    )


def redone_steps(last_step: int | None, resume: ResumePoint | None) -> int:
    """Steps that were done and are done again: everything after the checkpoint."""
    return max(0, (last_step or 0) - (resume.step if resume else 0))


def wanted(checkpoints: Sequence[CheckpointRecord], asked: RestartFrom | None) -> Sequence[CheckpointRecord]:
    """Those that count after its user has asked for a start from a step: that step's, those before it, and what was
    made since. From step 0 on only the last."""
    if asked is None:
        return checkpoints
    return [one for one in checkpoints if one.epoch > asked.epoch or 0 < asked.step >= one.step]
