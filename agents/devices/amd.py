"""AMD: what `amd-smi` and `rocm-smi` print is told apart by what it looks like."""

import re

from agents.devices import amd_topology, rocm, table
from muster.inspection import FoundDevice, Inspection

VENDOR = "amd"


def read(text: str) -> Inspection:
    found = Inspection()
    if rocm.read_json(text, found, VENDOR):
        if not found.devices:
            found.half("JSON without devices")
        return found
    known = [
        amd_topology.read(text, found),
        rocm.read_lines(text, found, VENDOR),
        rocm.read_table(text, found, VENDOR),
        _blocks(text, found),
    ]
    if not any(known):
        found.half("nothing of rocm-smi or amd-smi was recognised" if text.strip() else "the output is empty")
    if "System Management Interface" in text and not re.search(r"End of .*Log", text):
        found.half("the log has no end line")
    for line in text.split("\n"):
        if line.startswith(("WARNING", "ERROR")):
            found.note(line.strip())
    return found


def _blocks(text: str, found: Inspection) -> bool:
    """`GPU: 0` with indented `KEY: value` lines below (amd-smi list, static)."""
    device: FoundDevice | None = None
    for line in text.split("\n"):
        start = re.match(r"GPU: (\d+)\s*$", line)
        entry = re.match(r"\s+([A-Z_]+):\s*(\S.*)$", line)
        if start:
            device = found.device(int(start.group(1)))
            device.vendor = VENDOR
        elif device is not None and entry:
            key, value = entry.group(1), entry.group(2).strip()
            if key == "BDF":
                device.bus = value
            elif key == "MARKET_NAME":
                device.model = value
            elif key == "SIZE" and (size := table.whole(value)) is not None and value.endswith(("MB", "GB")):
                device.memory_mib = size * (1024 if value.endswith("GB") else 1)
            elif key == "NODE" and value.isdigit():
                device.numa = int(value)
            elif key in ("UUID", "KFD_ID", "NODE_ID"):
                device.details[key.lower()] = value
    return device is not None
