"""The Queue: where jobs wait, and what they may use."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from muster.accelerators import canonical, suggest
from muster.resources.meta import API_VERSION, Metadata, Model, Name
from muster.resources.quantities import Duration

MAX_QUOTA = 10_000_000


def _amounts(value: dict[str, int]) -> dict[str, int]:
    """Devices by the catalogue's name of their kind."""
    found: dict[str, int] = {}
    for kind, amount in value.items():
        name = canonical(kind)
        if name is None:
            near = suggest(kind)
            raise ValueError(f"unknown accelerator {kind!r}" + (f'; did you mean "{near}"?' if near else ""))
        if name in found:
            raise ValueError(f"{kind!r} is {name}, which stands there already")
        if not 0 <= amount <= MAX_QUOTA:
            raise ValueError(f"{kind}: expected a number of devices from 0 to {MAX_QUOTA}, found {amount}")
        found[name] = amount
    return found


Amounts = Annotated[dict[str, int], AfterValidator(_amounts)]


class QueueSpec(Model):
    """Where its jobs wait, in which order, and what they may use. Queues are a tree: what one does not use of its quota,
    others may borrow, its nearest relatives first by their shares."""

    parent: Name | None = None
    """The queue of which this one is a part."""
    weight: int = Field(default=1, ge=0, le=1_000_000)
    """Of what is borrowed, its share beside that of others; 0: served when nobody else wants anything."""
    quota: Amounts | None = None
    """Devices of each kind that its jobs may always use. A queue without a quota in its line up is not counted."""
    borrow_limit: Amounts | None = None
    """Devices of each kind that it may use beyond its quota; whatever others leave unless said."""
    lend_limit: Amounts | None = None
    """Devices of each kind of its quota that others may borrow; all unless said."""
    user_limit: Amounts | None = None
    """Devices of each kind that the jobs of one user in this queue may hold at a time."""
    usage_half_life: Duration | None = None
    """What its jobs used counts half after so long when starts are ordered among queues with equal shares; not at all unless
    said."""
    kinds: Literal["manifest", "goodput"] | None = None
    """Which acceptable kind of accelerator is tried first: as the job has them (unless said), or the fastest by the speeds that it
    gives."""
    discipline: Literal["fair", "timeSharing"] | None = None
    """fair (unless said): priority, then age, with the queues by their shares; timeSharing: who is expected to end soonest runs,
    learned from past runs of the same program, and whoever saves checkpoints yields."""
    min_runtime: Duration | None = None
    """A job that has begun is left alone for so long before it may be evicted."""
    consolidation: bool | None = None
    """Gangs that save checkpoints may be moved, to make a domain whole for a larger one."""
    default_time_limit: Duration | None = None
    """The time limit of jobs that say none, so that starts can be dated."""
    stopped: bool = False
    """A stopped queue accepts jobs and starts none."""

    @field_validator("quota", "borrow_limit", "lend_limit", "user_limit", mode="before")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        """true and 1.0 are no numbers of devices."""
        if isinstance(value, dict):
            for kind, amount in value.items():
                if isinstance(amount, bool | float):
                    raise ValueError(f"{kind}: expected a whole number of devices, found {amount!r}")
        return value


class Queue(Model):
    """`kind: Queue`. `default` exists without being made."""

    api_version: Literal["muster.dev/v1"] = API_VERSION
    kind: Literal["Queue"] = "Queue"
    metadata: Metadata
    spec: QueueSpec = Field(default_factory=QueueSpec)
