"""What a verdict means for the attempt and the job, as a table."""

from typing import Final

from msgspec import Struct

from controller.records import Verdict
from controller.recovery.types import FailureCase
from muster.reasons import End, Held
from muster.states import JobPhase


class Outcome(Struct, frozen=True, kw_only=True):
    """`preferred` nodes are gone back to where they still fit, `excluded` ones are not used for the next attempt."""

    end: End
    next: JobPhase
    preferred: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    held_reason: str = ""


FATE: Final = {
    "record": JobPhase.SUCCEEDED,
    "retry": JobPhase.RECOVERING,
    "restart": JobPhase.RECOVERING,
    "replace": JobPhase.RECOVERING,
    "drain": JobPhase.RECOVERING,
    "previous_checkpoint": JobPhase.RECOVERING,
    "original_world_size": JobPhase.RECOVERING,
    "hold": JobPhase.SUSPENDED,
    "fail": JobPhase.FAILED,
}

ENDS: Final = {
    "success": End.SUCCEEDED,
    "node_lost": End.NODE_LOST,
    "worker_vanished": End.WORKER_VANISHED,
    "no_progress": End.NO_PROGRESS,
    "user_error": End.USER_ERROR,
    "gpu_oom": End.USER_ERROR,
    "shared_memory": End.USER_ERROR,
    "checkpoint_mismatch": End.USER_ERROR,
    "checkpoint_world_size": End.USER_ERROR,
    "limits": End.USER_ERROR,
    "access_denied": End.USER_ERROR,
    "collective_mismatch": End.USER_ERROR,
    "launch_user_error": End.USER_ERROR,
    "launch_failed": End.LAUNCH_FAILED,
    "port_in_use": End.LAUNCH_FAILED,
}
"""By category; every other one is a failed rank."""

HELD: Final = {"disk_full": Held.DISK_FULL, "storage": Held.STORAGE, "checkpoint_dir": Held.STORAGE}


def outcome(verdict: Verdict, case: FailureCase) -> Outcome:
    """Pure."""
    held = verdict.action == "hold"
    out = verdict.culprit_nodes if verdict.action in ("replace", "drain") else ()
    return Outcome(
        end=End.HELD if held else ENDS.get(verdict.category, End.RANK_FAILED),
        next=FATE[verdict.action],
        preferred=tuple(dict.fromkeys(worker.node for worker in case.workers if worker.node not in out)),
        excluded=tuple(out),
        held_reason=str(HELD.get(verdict.category, Held.STORAGE)) if held else "",
    )
