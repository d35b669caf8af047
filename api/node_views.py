"""What is shown of a node's health, its NICs and its repairs."""

from typing import Literal

from typing_extensions import TypedDict


class DrainView(TypedDict):
    by: str
    at: str | None
    policy: Literal["now", "finish"]
    reason: str


class ConditionView(TypedDict):
    """`device` is an index, None for the node as a whole; `subject` names any other thing it is about."""

    kind: str
    reason: str
    message: str
    severity: str
    remedy: str
    device: int | None
    subject: str
    since: str | None
    seen: str | None
    count: int


class NicView(TypedDict):
    name: str
    netdev: str | None
    linkLayer: str | None
    state: str | None
    rateGbps: float | None
    numa: int | None
    rail: int | None
    bus: str | None
    virtualFunction: bool


class RepairStepView(TypedDict):
    at: str | None
    phase: str
    message: str


class RepairView(TypedDict):
    """A node's way from a condition back to work. `dryRun`: it is all only said."""

    uid: str
    node: str
    phase: str
    message: str
    dryRun: bool
    devices: list[int]
    tried: list[str]
    conditions: list[ConditionView]
    steps: list[RepairStepView]
    createdAt: str | None
    endedAt: str | None


class MeasurementView(TypedDict):
    """What an active check measured. `outlier` is a sentence when it is far from what its peers gave."""

    uid: str
    node: str
    check: str
    name: str
    value: float
    unit: str
    ok: bool
    device: int | None
    deviceType: str
    peer: str
    message: str
    outlier: str
    at: str | None


class NodeWorkerView(TypedDict):
    """A worker as a node's operator sees it."""

    uid: str
    namespace: str
    job: str
    role: str
    index: int
    phase: str
    devices: list[int]
    stopReason: str
