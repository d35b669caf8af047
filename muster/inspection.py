"""What a source tells of a machine: devices, NICs, events, the node and its fabric, in one form.

A field is None where the source does not tell; nothing is guessed. `details` has what has no field of its own.
`complete` is False when the source was read in part, with the reason among the `problems`.
"""

from typing import Any

import msgspec
from msgspec import field


class FoundDevice(msgspec.Struct, kw_only=True):
    """One accelerator. `index` is unique within an inspection; `group` numbers `Inspection.groups`."""

    index: int
    vendor: str | None = None
    model: str | None = None
    memory_mib: int | None = None
    numa: int | None = None
    cpus: str | None = None
    bus: str | None = None
    group: int | None = None
    nearest_nics: list[str] = field(default_factory=list)
    healthy: bool | None = None
    problems: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)


class FoundNic(msgspec.Struct, kw_only=True):
    """One network interface, or one port of it. `rate_gbps` is what the port says, also when it is down."""

    name: str
    link_layer: str | None = None
    state: str | None = None
    rate_gbps: float | None = None
    numa: int | None = None
    rail: int | None = None
    details: dict[str, Any] = field(default_factory=dict)


class FoundEvent(msgspec.Struct, kw_only=True):
    """One thing that happened. `severity` is info, warning, error or fatal; `time` is as the source has it."""

    code: str
    device: str | None = None
    severity: str = "info"
    action: str | None = None
    time: str | None = None
    text: str = ""


class FoundNode(msgspec.Struct, kw_only=True):
    """The machine as a whole; `levels` are the names of its places in the fabric, outermost first."""

    levels: list[str] = field(default_factory=list)
    allocatable: dict[str, Any] = field(default_factory=dict)
    taints: list[str] = field(default_factory=list)
    ready: bool | None = None
    details: dict[str, Any] = field(default_factory=dict)


class FoundFabric(msgspec.Struct, kw_only=True):
    """Levels outermost first; level -> domain -> its nodes; nodes that are seen and have no place."""

    levels: list[str] = field(default_factory=list)
    domains: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    unplaced: list[str] = field(default_factory=list)


class Inspection(msgspec.Struct, kw_only=True):
    """All that one source, or one machine, tells."""

    complete: bool = True
    problems: list[str] = field(default_factory=list)
    devices: list[FoundDevice] = field(default_factory=list)
    nics: list[FoundNic] = field(default_factory=list)
    groups: list[list[int]] = field(default_factory=list)
    events: list[FoundEvent] = field(default_factory=list)
    node: FoundNode = field(default_factory=FoundNode)
    fabric: FoundFabric = field(default_factory=FoundFabric)

    def half(self, why: str) -> None:
        """Marks this as read in part."""
        self.complete = False
        self.note(why)

    def note(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def free_index(self) -> int:
        """The smallest number above all indices."""
        return max((device.index for device in self.devices), default=-1) + 1

    def device(self, index: int) -> FoundDevice:
        """The device of this index, made when it is not there yet."""
        for found in self.devices:
            if found.index == index:
                return found
        found = FoundDevice(index=index)
        self.devices.append(found)
        return found


def to_json(inspection: Inspection) -> bytes:
    return msgspec.json.format(msgspec.json.encode(inspection), indent=2)
