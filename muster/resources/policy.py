"""What operators declare for the whole cluster: priority classes, reservations, maintenance windows."""

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from muster.resources.meta import API_VERSION, Labels, Metadata, Model, Name
from muster.resources.placing import MAX_WORKERS, NodeName
from muster.resources.quantities import Duration, Moment

MAX_PRIORITY: Final = 1_000_000_000


class Who(Model):
    """Jobs by where they come from; a job counts when it is named in any of the lists."""

    namespaces: list[Name] | None = Field(default=None, max_length=1000)
    """Jobs of these namespaces."""
    users: list[str] | None = Field(default=None, max_length=1000)
    """Jobs that these users submitted."""
    queues: list[Name] | None = Field(default=None, max_length=1000)
    """Jobs in these queues."""

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        if not (self.namespaces or self.users or self.queues):
            raise ValueError("expected at least one of namespaces, users and queues, not empty")
        return self


class PriorityClassSpec(Model):
    """A name for a priority. A job takes the value when it is submitted; later changes of the class leave it alone."""

    value: int = Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)
    """Higher is served first inside a queue."""
    preempts: Literal["lower", "never"] = "lower"
    """lower: its jobs may evict jobs of lower priority of their queue; never: they wait until there is room."""
    who: Who | None = None
    """Who may use it; everybody unless said."""
    description: str = Field(default="", max_length=1000)
    """For people."""


class Window(Model):
    """A span of time: from `start` to `end`, or for `duration`."""

    start: Moment | None = None
    """When it begins; at once unless said."""
    end: Moment | None = None
    """When it is over; exactly one of end and duration."""
    duration: Duration | None = None
    """How long it lasts; exactly one of end and duration."""

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if (self.end is None) == (self.duration is None):
            raise ValueError("expected exactly one of end and duration")
        return self


class ReservationSpec(Window):
    """Nodes that for a while are only for some: named ones, or so many of a kind."""

    nodes: list[NodeName] | None = Field(default=None, min_length=1, max_length=MAX_WORKERS)
    """These nodes; exactly one of nodes and size."""
    size: int | None = Field(default=None, ge=1, le=MAX_WORKERS)
    """So many whole nodes, chosen by the planner; exactly one of nodes and size."""
    accelerator: str | None = None
    """With size: only nodes that have this kind of device."""
    level: str | None = None
    """With size: all of them in one domain of this level of the fabric."""
    who: Who
    """Whose jobs may use them meanwhile. Others start there only when their time limit ends them before."""

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        if (self.nodes is None) == (self.size is None):
            raise ValueError("expected exactly one of nodes and size")
        if self.size is None and (self.accelerator or self.level):
            raise ValueError("accelerator and level go with size, not with nodes")
        return self


class MaintenanceWindowSpec(Window):
    """Nodes that for a while are nobody's. No job starts there that would not be over before by its time limit."""

    nodes: list[NodeName] | None = Field(default=None, min_length=1, max_length=MAX_WORKERS)
    """These nodes."""
    node_selector: Labels | None = None
    """All nodes with these labels."""
    running: Literal["wait", "stop"] = "wait"
    """What still runs there when it begins: it ends by itself (wait), or it is stopped and queued again (stop)."""
    description: str = Field(default="", max_length=1000)
    """For people."""

    @model_validator(mode="after")
    def _some_nodes(self) -> Self:
        if not (self.nodes or self.node_selector):
            raise ValueError("expected nodes or nodeSelector")
        return self


class PriorityClass(Model):
    """`kind: PriorityClass`. `low`, `normal` and `high` exist without being made."""

    api_version: Literal["muster.dev/v1"] = API_VERSION
    kind: Literal["PriorityClass"] = "PriorityClass"
    metadata: Metadata
    spec: PriorityClassSpec


class Reservation(Model):
    """`kind: Reservation`."""

    api_version: Literal["muster.dev/v1"] = API_VERSION
    kind: Literal["Reservation"] = "Reservation"
    metadata: Metadata
    spec: ReservationSpec


class MaintenanceWindow(Model):
    """`kind: MaintenanceWindow`."""

    api_version: Literal["muster.dev/v1"] = API_VERSION
    kind: Literal["MaintenanceWindow"] = "MaintenanceWindow"
    metadata: Metadata
    spec: MaintenanceWindowSpec


Policy = PriorityClass | Reservation | MaintenanceWindow
