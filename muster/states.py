"""Phases and the only moves between them, as data.

The store refuses every move that is not listed here: the same table is put into the WHERE clause of
the UPDATE, so an illegal move changes no row.
"""

from enum import StrEnum
from typing import Final, TypeVar

Phase = TypeVar("Phase", bound=StrEnum)


class JobPhase(StrEnum):
    """What the user sees of a job. The last three absorb."""

    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    RECOVERING = "Recovering"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


class AttemptPhase(StrEnum):
    """One run of a restart scope on one placement."""

    PLACED = "Placed"
    LAUNCHING = "Launching"
    RUNNING = "Running"
    STOPPING = "Stopping"
    ENDED = "Ended"


class WorkerPhase(StrEnum):
    """One launched unit on one node, as its node reports it.

    ASSIGNED: promised in the database. PREPARING: the agent has it and is getting ports, folders and
    data. READY: its shim waits at the gang's barrier. RUNNING: ranks spawned. EXITED: every process is
    confirmed dead. LOST: its node passed the fence, so every process is dead by construction.
    """

    ASSIGNED = "Assigned"
    PREPARING = "Preparing"
    READY = "Ready"
    RUNNING = "Running"
    EXITED = "Exited"
    LOST = "Lost"


class NodePhase(StrEnum):
    """READY renews its lease. UNKNOWN missed renewals; nothing is stopped. LOST passed the fence."""

    READY = "Ready"
    UNKNOWN = "Unknown"
    LOST = "Lost"


class RepairPhase(StrEnum):
    """Where a node is on its way back to work. WAITING: found, and nothing done yet (the breaker is open, or the work
    may still finish). RETURNED and DROPPED absorb: it is back, or there is nothing to repair any more."""

    WAITING = "Waiting"
    DRAINING = "Draining"
    RESETTING = "Resetting"
    REBOOTING = "Rebooting"
    TICKETED = "Ticketed"
    CHECKING = "Checking"
    RETURNED = "Returned"
    DROPPED = "Dropped"


J, A, W, N, R = JobPhase, AttemptPhase, WorkerPhase, NodePhase, RepairPhase

JOB_MOVES: Final[dict[JobPhase, frozenset[JobPhase]]] = {
    J.QUEUED: frozenset({J.STARTING, J.SUSPENDED, J.FAILED, J.CANCELLED}),
    J.STARTING: frozenset({J.RUNNING, J.RECOVERING, J.QUEUED, J.SUSPENDED, J.SUCCEEDED, J.FAILED, J.CANCELLED}),
    J.RUNNING: frozenset({J.RECOVERING, J.QUEUED, J.SUSPENDED, J.SUCCEEDED, J.FAILED, J.CANCELLED}),
    J.RECOVERING: frozenset({J.STARTING, J.QUEUED, J.SUSPENDED, J.SUCCEEDED, J.FAILED, J.CANCELLED}),
    J.SUSPENDED: frozenset({J.QUEUED, J.CANCELLED, J.FAILED}),
    J.SUCCEEDED: frozenset(),
    J.FAILED: frozenset(),
    J.CANCELLED: frozenset(),
}

ATTEMPT_MOVES: Final[dict[AttemptPhase, frozenset[AttemptPhase]]] = {
    A.PLACED: frozenset({A.LAUNCHING, A.STOPPING, A.ENDED}),
    A.LAUNCHING: frozenset({A.RUNNING, A.STOPPING, A.ENDED}),
    A.RUNNING: frozenset({A.STOPPING, A.ENDED}),
    A.STOPPING: frozenset({A.ENDED}),
    A.ENDED: frozenset(),
}

WORKER_MOVES: Final[dict[WorkerPhase, frozenset[WorkerPhase]]] = {
    W.ASSIGNED: frozenset({W.PREPARING, W.READY, W.RUNNING, W.EXITED, W.LOST}),
    W.PREPARING: frozenset({W.READY, W.RUNNING, W.EXITED, W.LOST}),
    W.READY: frozenset({W.PREPARING, W.RUNNING, W.EXITED, W.LOST}),
    W.RUNNING: frozenset({W.EXITED, W.LOST}),
    W.EXITED: frozenset(),
    W.LOST: frozenset(),
}

NODE_MOVES: Final[dict[NodePhase, frozenset[NodePhase]]] = {
    N.READY: frozenset({N.UNKNOWN, N.LOST}),
    N.UNKNOWN: frozenset({N.READY, N.LOST}),
    N.LOST: frozenset({N.READY}),
}

REPAIR_MOVES: Final[dict[RepairPhase, frozenset[RepairPhase]]] = {
    R.WAITING: frozenset({R.DRAINING, R.DROPPED}),
    R.DRAINING: frozenset({R.RESETTING, R.REBOOTING, R.TICKETED, R.CHECKING, R.DROPPED}),
    R.RESETTING: frozenset({R.CHECKING, R.DRAINING, R.REBOOTING, R.TICKETED, R.DROPPED}),
    R.REBOOTING: frozenset({R.CHECKING, R.TICKETED, R.DROPPED}),
    R.TICKETED: frozenset({R.CHECKING, R.DROPPED}),
    R.CHECKING: frozenset({R.RETURNED, R.DRAINING, R.RESETTING, R.REBOOTING, R.TICKETED, R.DROPPED}),
    R.RETURNED: frozenset(),
    R.DROPPED: frozenset(),
}

JOB_TERMINAL: Final = frozenset({J.SUCCEEDED, J.FAILED, J.CANCELLED})
WORKER_TERMINAL: Final = frozenset({W.EXITED, W.LOST})
REPAIR_TERMINAL: Final = frozenset({R.RETURNED, R.DROPPED})


def sources(moves: dict[Phase, frozenset[Phase]], target: Phase) -> frozenset[Phase]:
    """The phases from which `target` may be reached, for an UPDATE's WHERE."""
    return frozenset(phase for phase, targets in moves.items() if target in targets)
