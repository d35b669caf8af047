"""Verdicts on workers that their agents could not start."""

from typing import Final

from msgspec import Struct

from controller.records import Verdict, WorkerRecord
from controller.recovery.types import FailureCase
from controller.recovery.wording import does


class Obstacle(Struct, frozen=True):
    """`action` when it is the same everywhere. `local`: it may be this node's alone."""

    action: str
    category: str
    says: str
    local: bool = True


OBSTACLES: Final = {
    "NO_SUCH_COMMAND": Obstacle("fail", "launch_user_error", "the command does not exist"),
    "WORKDIR_MISSING": Obstacle("fail", "launch_user_error", "the working directory does not exist"),
    "PERMISSION": Obstacle("fail", "launch_user_error", "the command or a folder may not be used"),
    "LAUNCH_INVALID": Obstacle("fail", "launch_user_error", "it cannot be launched as it is written", local=False),
    "UNSUPPORTED": Obstacle(
        "fail", "launch_user_error", "it asks for what this kind of cluster cannot do", local=False
    ),
    "NO_CONTAINER_ENGINE": Obstacle("fail", "launch_user_error", "there is no container engine"),
    "PROLOG_FAILED": Obstacle("retry", "launch_failed", "its node's prolog did not let it start"),
    "IMAGE_PULL": Obstacle("fail", "launch_user_error", "its image cannot be had"),
    "DISK_FULL": Obstacle("hold", "disk_full", "the disk is full"),
    "CHECKPOINT_DIR": Obstacle("hold", "checkpoint_dir", "the checkpoint directory cannot be used"),
    "PORT_BUSY": Obstacle("retry", "port_in_use", "a port was taken between its test and its use", local=False),
    "STALE_EPOCH": Obstacle("retry", "launch_failed", "its node had already seen a newer attempt", local=False),
    "LAUNCH_FAILED": Obstacle("retry", "launch_failed", "the launch failed"),
}
"""By problem code. The same obstacle on the second node, or nowhere else to look, is the job's."""

LAUNCH_TRIES: Final = 3


def could_not_start(case: FailureCase) -> Verdict | None:
    """None when every worker was started."""
    stopped = [worker for worker in case.workers if worker.problem in OBSTACLES]
    if not stopped:
        return None
    worker = min(stopped, key=lambda one: (one.ended_at or 0.0, one.index))
    obstacle = OBSTACLES[worker.problem]
    print_ = f"start:{worker.problem}"
    before = _before(case, print_)
    action = obstacle.action
    if action == "retry" and obstacle.category == "launch_failed" and before:
        action = "replace" if before < LAUNCH_TRIES - 1 else "fail"
    elif action != "retry" and obstacle.local and not before and _only_there(case, worker):
        action = "replace"
    elsewhere = action == "replace"
    detail = f" ({worker.message})" if worker.message else ""
    where = ", while other nodes could start theirs" if elsewhere and not before else ""
    return Verdict(
        category="launch_failed" if elsewhere else obstacle.category,
        action=action,
        why=f"worker {worker.role}-{worker.index} on {worker.node} could not start: {obstacle.says}{detail}{where}; "
        f"{does(action)}",
        culprit_nodes=(worker.node,) if elsewhere else (),
        node_at_fault=True if elsewhere else False if action == "fail" else None,
        certainty="likely" if elsewhere else "confirmed",
        decided_by=(worker.problem,),
        fingerprint=print_,
    )


def _only_there(case: FailureCase, worker: WorkerRecord) -> bool:
    """Whether workers of the same role on other machines were ready: what they are made of is the same."""
    others = [one for one in case.workers if one.role == worker.role and one.node != worker.node]
    return worker.ready_at is None and any(one.ready_at is not None for one in others)


def _before(case: FailureCase, fingerprint: str) -> int:
    """How many attempts in a row before this one ended the same way."""
    count = 0
    for attempt in case.history:
        if attempt.verdict is None or attempt.verdict.fingerprint != fingerprint:
            break
        count += 1
    return count
