"""Proof from a node's kernel or devices, which beats what ranks printed.

Only what is near the failure in time counts, and nothing that programs cause themselves: those ranks say better what it
was. A device's word counts against the worker that had it, the node's against all of its workers.
"""

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from controller.recovery.kinds import Kind
from controller.recovery.logs import read
from controller.recovery.types import FailureCase
from controller.recovery.xids import response
from muster.evidence import Evidence, Source

BEFORE, AFTER = 600.0, 300.0
"""Seconds before and after the failure in which hardware may have caused it."""
_XID: Final = re.compile(r"Xid ?(\d+)")
_NOT_ITS_CAUSE: Final = (
    *("oom-kill", "OomKill", "OomKills", "DeviceMemoryInUse", "RowRemapPending", "PcieNarrow"),
    *("StaleMount", "MountHangs", "ClockSkew"),
)
"""Kernel's kills need proof of which process; others were so before the job began, or only slow it down; a mount is its
server's."""
SHARED: Final = 3
"""So many nodes that say the same of themselves at once have one cause, and none of them is it."""
SEVERE: Final = ("error", "fatal")


class Proof(Struct, frozen=True):
    """What the hardware said first: `category` is the verdict's."""

    sight: Evidence
    category: str
    nodes: tuple[str, ...] = ()
    """All that said the same of themselves."""

    @property
    def shared(self) -> bool:
        return self.sight.device is None and len(self.nodes) >= SHARED

    @property
    def what(self) -> str:
        where = f"device {self.sight.device} of {self.sight.node}" if self.sight.device is not None else self.sight.node
        return f"{where}: {self.sight.text.strip()[:300]}"


def proof(case: FailureCase, failed_at: float | None) -> Proof | None:
    """The earliest sight that explains the failure; its follow-ups say the same later."""
    at = failed_at if failed_at is not None else case.attempt.detected_at
    near = [one for one in _sights(case.evidence) if at is None or -BEFORE <= one.at - at <= AFTER]
    first = min(near, key=lambda one: (one.at, one.source != Source.KERNEL, one.node, one.text), default=None)
    if first is None:
        return None
    same = {one.node for one in near if one.device is None and one.data.get("code") == first.data.get("code")}
    return Proof(first, _category(first), tuple(sorted(same)))


def _sights(evidence: Iterable[Evidence]) -> Iterable[Evidence]:
    for one in evidence:
        if one.source not in (Source.KERNEL, Source.DEVICE) or one.data.get("severity") not in SEVERE:
            continue
        code = str(one.data.get("code", ""))
        xid = _XID.fullmatch(code)
        if code in _NOT_ITS_CAUSE or (xid and response(int(xid.group(1))) != "replace"):
            continue
        yield one


def _category(sight: Evidence) -> str:
    """As the same words would be called in a rank's log."""
    found = read(sight.text)
    if found.hit is not None and found.kind in (Kind.DEVICE, Kind.HOST_FAULT):
        return found.hit.category
    return str(Kind.DEVICE if sight.device is not None else Kind.HOST_FAULT)
