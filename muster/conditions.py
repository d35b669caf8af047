"""Conditions: what is wrong with a node or with one of its devices, for as long as it is.

Agents find them, the controller acts by them. `kind` says what is judged, `reason` is the code (an Xid, a counter's
name), `message` is what people read.
"""

from enum import StrEnum
from typing import Final, Literal

import msgspec

Severity = Literal["info", "warning", "error", "fatal"]


class Remedy(StrEnum):
    """The cheapest action that may end a condition, as a rung of the ladder of repairs."""

    NONE = "none"  # it passes, or people look at it when they like
    RESET = "reset"  # of the device, which must be free of processes
    REBOOT = "reboot"
    REPLACE = "replace"  # people are needed: a ticket


class Condition(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`device` is the index of the device it is about, None for the node; `subject` names any other thing (a NIC, a
    disk, a mount). `since` is when it began and `seen` when it was last true, UTC seconds; `count` how often."""

    kind: str
    reason: str
    message: str = ""
    severity: Severity = "warning"
    remedy: Remedy = Remedy.NONE
    device: int | None = None
    subject: str = ""
    since: float = 0.0
    seen: float = 0.0
    count: int = 1

    @property
    def key(self) -> tuple[str, str, int | None, str]:
        """Two conditions of one key are the same one."""
        return (self.kind, self.reason, self.device, self.subject)

    @property
    def blocking(self) -> bool:
        """Nothing new is placed on what has it."""
        return self.severity in BLOCKING

    @property
    def where(self) -> str:
        """`device 3`, `mlx5_0`, or nothing for the node as a whole."""
        return f"device {self.device}" if self.device is not None else self.subject


BLOCKING: Final = ("error", "fatal")
"""Severities that keep new work away; fatal also takes away what runs."""
