"""Machine codes that carry a decision: why a job waits, why an attempt ended, why a job is held.

A reason decides what follows (the final phase, whether a restart counts against the budget); the
sentence beside it is what the user reads.
"""

from enum import StrEnum
from typing import Final


class Waiting(StrEnum):
    """Why a job is not running yet, in the order in which they bind (first that applies is shown)."""

    INVALID_TOPOLOGY = "INVALID_TOPOLOGY"
    SUSPENDED = "SUSPENDED"
    DEPENDENCY = "DEPENDENCY"
    QUOTA = "QUOTA"
    FAIR_SHARE = "FAIR_SHARE"
    RESERVED_FOR_OTHER = "RESERVED_FOR_OTHER"
    BACKFILL_WOULD_DELAY = "BACKFILL_WOULD_DELAY"
    NODE_REPAIR = "NODE_REPAIR"
    CAPACITY = "CAPACITY"
    TOPOLOGY_FRAGMENTED = "TOPOLOGY_FRAGMENTED"
    DEVICE_FRAGMENTED = "DEVICE_FRAGMENTED"
    NO_VICTIM_SET = "NO_VICTIM_SET"
    STRUCTURAL = "STRUCTURAL"


class End(StrEnum):
    """Why an attempt ended. `ENDS` says what each means for the job."""

    SUCCEEDED = "Succeeded"
    RANK_FAILED = "RankFailed"
    USER_ERROR = "UserError"
    NO_PROGRESS = "NoProgress"
    NODE_LOST = "NodeLost"
    WORKER_VANISHED = "WorkerVanished"
    LAUNCH_FAILED = "LaunchFailed"
    LAUNCH_TIMEOUT = "LaunchTimeout"
    TIME_LIMIT = "TimeLimit"
    HELD = "Held"
    SUSPENDED = "Suspended"
    CANCELLED = "Cancelled"
    PREEMPTED = "Preempted"
    RESIZED = "Resized"
    MIGRATED = "Migrated"
    DRAINED = "Drained"
    SUPERSEDED = "Superseded"


class Budget(StrEnum):
    """Whose fault an end is: only USER and SYSTEM ends count against `recovery.maxRestarts`."""

    NONE = "none"
    SYSTEM = "system"
    USER = "user"


ENDS: Final[dict[End, Budget]] = {
    End.SUCCEEDED: Budget.NONE,
    End.RANK_FAILED: Budget.SYSTEM,
    End.USER_ERROR: Budget.USER,
    End.NO_PROGRESS: Budget.USER,
    End.NODE_LOST: Budget.SYSTEM,
    End.WORKER_VANISHED: Budget.SYSTEM,
    End.LAUNCH_FAILED: Budget.SYSTEM,
    End.LAUNCH_TIMEOUT: Budget.SYSTEM,
    End.TIME_LIMIT: Budget.NONE,
    End.HELD: Budget.NONE,
    End.SUSPENDED: Budget.NONE,
    End.CANCELLED: Budget.NONE,
    End.PREEMPTED: Budget.NONE,
    End.RESIZED: Budget.NONE,
    End.MIGRATED: Budget.NONE,
    End.DRAINED: Budget.NONE,
    End.SUPERSEDED: Budget.NONE,
}


class Held(StrEnum):
    """Why a job is Suspended."""

    BY_USER = "ByUser"
    DISK_FULL = "DiskFull"
    STORAGE = "StorageOutage"
    QUOTA = "QuotaExhausted"
