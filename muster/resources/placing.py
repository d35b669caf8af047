"""Where a gang may and should lie, and what it lies on."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from muster.resources.meta import LabelKey, Model
from muster.resources.program import Environment
from muster.resources.running import check_image

MAX_WORKERS = 100_000


def _node_name(value: str) -> str:
    if not value or len(value) > 253 or any(letter.isspace() or not letter.isprintable() for letter in value):
        raise ValueError("expected the name of a node, as `muster get nodes` shows it")
    return value


NodeName = Annotated[str, AfterValidator(_node_name)]


class Accelerators(Model):
    """One acceptable kind. `type` is a catalogue name or alias, `count` the devices of each worker."""

    type: str
    """Name of the kind as the catalogue or its driver has it, e.g. h100."""
    count: int = Field(ge=1, le=1024)
    """Devices of each worker."""
    workers: int | None = Field(default=None, ge=1, le=MAX_WORKERS)
    """Workers of the gang when this kind is chosen; the job's own `workers` otherwise."""
    speed: float | None = Field(default=None, gt=0, le=1_000_000)
    """How fast the whole job is on this kind, relative to the others: for queues that choose kinds by goodput."""
    image: str | None = None
    """The container image that is used when this kind is chosen."""
    env: Environment | None = None
    """Added to the environment when this kind is chosen."""

    _image = field_validator("image")(check_image)

    @field_validator("count", mode="before")
    @classmethod
    def _whole(cls, value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError("expected a whole number of devices: parts of a device are not given out yet")
        return value


class Segment(Model):
    """Every `size` consecutive workers, in rank order, share one domain of `level`."""

    size: int = Field(ge=1, le=MAX_WORKERS)
    """Workers of one segment; `workers` is a multiple of it, unless there may be a remainder."""
    level: str
    """A level of the fabric, e.g. leaf."""
    allow_remainder: bool | None = None
    """true: what is left over after whole segments is a smaller one, the last in rank order."""


class Topology(Model):
    """Where the gang may and should lie. Levels are names of the fabric, e.g. block, leaf, node."""

    required: str | None = None
    """All workers share one domain of this level, or the job waits."""
    preferred: str | None = None
    """The workers share one domain of this level where possible."""
    segment: Segment | None = None
    """Groups of consecutive workers that stay together, e.g. those of one pipeline stage."""
    split: Literal["tight", "balanced"] | None = None
    """Over the domains that it needs: filled one after the other (tight), or as evenly as can be (balanced). Tight unless said."""
    devices: Literal["any", "joined"] | None = None
    """joined: the devices of a worker are of one domain inside its node (NVLink, HCCS ring), or it waits."""
    rails: Literal["any", "match"] | None = None
    """match: all workers have devices on the same rails of the network, or the job waits."""


class Nodes(Model):
    """Nodes by name."""

    include: list[NodeName] | None = Field(default=None, min_length=1, max_length=MAX_WORKERS)
    """Only these nodes are used; any unless said."""
    exclude: list[NodeName] | None = Field(default=None, max_length=MAX_WORKERS)
    """These nodes are never used."""

    @model_validator(mode="after")
    def _some_left(self) -> Self:
        if both := sorted(set(self.include or ()) & set(self.exclude or ())):
            raise ValueError(f"{', '.join(both[:4])}: both included and excluded")
        return self


class Toleration(Model):
    """Nodes with this taint may be used; those with others may not."""

    key: LabelKey
    """Of the taint."""
    value: str | None = Field(default=None, max_length=63)
    """Of the taint; any unless said."""


class Taints(Model):
    """All taints of a node."""

    taints: list[Toleration] = Field(max_length=100)
    """With keys and values; without a value: the key alone."""


class Preemption(Model):
    """Whether others may take this job's place."""

    allowed: bool = True
    """false: it is never evicted for others; it may still lose a node."""
