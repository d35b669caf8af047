"""Machine codes that carry a decision: why a job waits, why an attempt ended, why a job is held.

A reason decides what follows (the final phase, whether a restart counts against the budget); the
sentence beside it is what the user reads.
"""

from enum import StrEnum
from typing import Final, NamedTuple


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


class Meaning(NamedTuple):
    """What a code says, and what helps against it in general."""

    means: str
    helps: str


WAITS: Final[dict[Waiting, Meaning]] = {
    Waiting.INVALID_TOPOLOGY: Meaning(
        "its constraint cannot be met on this fabric, however empty it is",
        "name a level that the fabric has, or sizes that divide the workers",
    ),
    Waiting.SUSPENDED: Meaning("its user, or a hold, keeps it from starting", "muster resume NAME"),
    Waiting.DEPENDENCY: Meaning("a job that it comes after has not ended", "wait for that job, or cancel it"),
    Waiting.QUOTA: Meaning(
        "its queue may not use more of this kind, even if all that others borrow came back",
        "wait for jobs of the same queue to end, use another queue, or ask for more quota",
    ),
    Waiting.FAIR_SHARE: Meaning(
        "others borrow what it would need, and its queue's share is no smaller than theirs",
        "wait for them to end; a queue below its own quota takes back what others borrow",
    ),
    Waiting.RESERVED_FOR_OTHER: Meaning(
        "it would fit on what is kept for another gang",
        "wait until that gang has started; a higher priority goes first",
    ),
    Waiting.BACKFILL_WOULD_DELAY: Meaning(
        "it would fit now, but would still run when a larger gang is to start there",
        "give it a timeLimit that ends before that start",
    ),
    Waiting.NODE_REPAIR: Meaning(
        "it keeps its healthy nodes and waits for a replacement of the lost one",
        "uncordon or repair a node; after recovery.recoveryTimeout it is queued again with nothing kept",
    ),
    Waiting.CAPACITY: Meaning(
        "of some resource there is not enough free on all nodes together",
        "wait for jobs to end, ask for fewer workers or another kind of accelerator, or add nodes",
    ),
    Waiting.TOPOLOGY_FRAGMENTED: Meaning(
        "enough is free, but not inside one domain of the level that it asks for",
        "loosen topology.required, or let jobs be moved (preemption.migrate)",
    ),
    Waiting.DEVICE_FRAGMENTED: Meaning(
        "nodes have enough free devices, but not of one group inside the node",
        "ask for fewer devices of each worker, or drop topology.devices: joined",
    ),
    Waiting.NO_VICTIM_SET: Meaning(
        "no set of jobs that it may evict makes room for all of it",
        "wait for jobs to end, or ask for a smaller or looser gang",
    ),
    Waiting.STRUCTURAL: Meaning(
        "it would not fit even if nothing ran", "add nodes, or change what the manifest asks of each worker"
    ),
}
"""What each code of a wait means, for people: `muster why` and docs/scheduling.md."""


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
