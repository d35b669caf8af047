"""From a kernel event to a condition: how bad, what would mend it, which device."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from agents.devices.known import Known
from agents.health.check import LONGEST
from muster.conditions import Condition, Remedy, Severity
from muster.inspection import FoundEvent

REPEATS: Final = 3
"""What asks for a drain on repeat has it after so many times within HOLD."""
HOLD: Final = 3600.0
"""Seconds for which a warning of the kernel is remembered after it was last said."""
_ORDER: Final = (
    ("reset", Remedy.RESET),
    ("reboot", Remedy.REBOOT),
    ("restart the host", Remedy.REBOOT),
    ("power cycle", Remedy.REBOOT),
    ("rma", Remedy.REPLACE),
    ("replace", Remedy.REPLACE),
    ("reseat", Remedy.REPLACE),
    ("on-site", Remedy.REPLACE),
    ("gone", Remedy.REPLACE),
    ("check", Remedy.REPLACE),
)
_ACTS: Final = re.compile(r"drain|cordon|reset|reboot|restart the host|replace|reseat")
_BOUNDARY: Final = re.compile(r"cordon|finish|reset when idle")
_PASSES: Final = re.compile(r"watch|application|see ")
_REPEATED: Final = re.compile(r"drain(?: and \w+)? on repeat")
_KINDS: Final = (
    ("Xid", "Xid"),
    ("SXid", "SXid"),
    ("gpu-", "Xid"),
    ("aer-", "PcieErrors"),
    ("pcie-", "PcieLink"),
    ("mce-", "HostMemory"),
    ("edac-", "HostMemory"),
    ("memory-", "HostMemory"),
    ("oom-", "OutOfMemory"),
    ("nic-", "RdmaPort"),
    ("nvme-", "Nvme"),
    ("read-only", "ReadOnly"),
    ("disk-", "Disk"),
    ("fs-", "Disk"),
    ("raid-", "Disk"),
    ("nfs-", "Mount"),
    ("amdgpu-", "AmdGpu"),
    ("ascend-", "Ascend"),
)


class Judged(NamedTuple):
    """`again`: after so many times it is an error; 0: it is what it is."""

    condition: Condition
    again: int = 0


def judge(event: FoundEvent, at: float, known: Iterable[Known]) -> Judged | None:
    """None for what is only worth recording. `at`: when the kernel said it, UTC seconds."""
    if event.severity == "info":
        return None
    action = (event.action or "").lower()
    severity: Severity = "warning"
    if event.severity == "warning":
        severity = "error" if _BOUNDARY.search(action) else "warning"
    elif event.code != "oom-kill" and _ACTS.search(action) and not _PASSES.match(action):
        severity = "fatal" if event.severity == "fatal" else "error"
    again = REPEATS if severity == "error" and _REPEATED.search(action) else 0
    device = device_of(event, known)
    condition = Condition(
        kind=next((kind for start, kind in _KINDS if event.code.startswith(start)), "Kernel"),
        reason=_reason(event.code),
        message=event.text[:LONGEST],
        severity="warning" if again else severity,
        remedy=_remedy(action) if severity != "warning" else Remedy.NONE,
        device=device,
        subject="" if device is not None else (event.device or "")[:200],
        since=at,
        seen=at,
    )
    return Judged(condition, again)


def device_of(event: FoundEvent, known: Iterable[Known]) -> int | None:
    """The index of the device that a kernel line names: by its address without function, else by its number (Ascend)."""
    name = event.device
    if not name:
        return None
    wanted = _slot(name)
    for one in known:
        if wanted and one.bus and (slot := _slot(one.bus)) and slot[1] == wanted[1] and _one_domain(slot[0], wanted[0]):
            return one.index
    if name.isdigit() and event.code.startswith("ascend"):
        return next((one.index for one in known if one.index == int(name) and one.vendor == "ascend"), None)
    return None


def _slot(address: str) -> tuple[int | None, str] | None:
    """Domain (None where it is left out) and `bus:device`."""
    found = re.search(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?$", address.lower())
    return (int(found.group(1), 16) if found.group(1) else None, found.group(2)) if found else None


def _one_domain(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other


def _remedy(action: str) -> Remedy:
    """The first rung that the words name; who names none needs people."""
    places = [(action.find(word), remedy) for word, remedy in _ORDER if word in action]
    return min(places)[1] if places else Remedy.REPLACE


def _reason(code: str) -> str:
    if found := re.fullmatch(r"(S?Xid) (\d+)", code):
        return f"{found.group(1)}{found.group(2)}"
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[^A-Za-z0-9]+", code) if word)
