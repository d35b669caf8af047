"""What NVIDIA's Xid and SXid numbers mean for scheduling. The rows are data (`xids.csv`, in the wheel)."""

import csv
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final, NamedTuple

NVLINK5: Final = range(144, 151)
_SXID_FABRIC: Final = frozenset({10003, 12020, 22003, 22011, *range(23001, 23018)})
_SXID_STALLS: Final = frozenset({11004, 12028, 19084})


class Xid(NamedTuple):
    """`severity` is info, warning, error or fatal."""

    name: str
    severity: str
    action: str


@cache
def table() -> MappingProxyType[int, Xid]:
    rows = csv.DictReader(resources.files(__package__).joinpath("xids.csv").read_text("utf-8").splitlines())
    return MappingProxyType({int(row["xid"]): Xid(row["name"], row["severity"], row["action"]) for row in rows})


def judge(number: int, text: str) -> Xid:
    """What the number means. From NVLink 5 on (144 to 150) the message's own word decides; an unknown number is
    recorded, never acted on."""
    known = table().get(number, Xid("unknown", "warning", "record; ask when it comes again"))
    low = text.lower()
    if number in NVLINK5:
        if "nonfatal" in low or "non-fatal" in low:
            return Xid(known.name, "warning", "watch: the link recovered")
        if "fatal" in low:
            return Xid(known.name, "fatal", "drain the whole node; reset; test the link's pair")
    if number == 154:
        return _recovery(known, low)
    return known


def _recovery(known: Xid, text: str) -> Xid:
    for words, severity, action in (
        ("drain and reset", "fatal", "drain and reset"),
        ("drain p2p", "error", "drain jobs that use peer access; reset"),
        ("reboot", "fatal", "drain and reboot"),
        ("reset", "fatal", "drain and reset"),
        ("(none)", "info", "none"),
    ):
        if words in text:
            return Xid(known.name, severity, action)
    return known


def judge_switch(number: int, fatal: bool) -> Xid:
    """The same for an NVSwitch error; the GPUs behind its port see Xid 74."""
    if number in _SXID_FABRIC:
        return Xid("switch", "fatal", "drain the whole node; restart the host")
    if fatal:
        return Xid("switch", "fatal", "drain the whole node; reset GPUs and switches together")
    if number in _SXID_STALLS:
        return Xid("switch", "warning", "watch: traffic may stall; GPUs behind the port may see Xid 74")
    return Xid("switch", "warning", "watch")
