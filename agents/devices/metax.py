"""MetaX: `mx-smi` as a table and `mx-smi -L`."""

import re

from agents.devices import table
from muster.inspection import Inspection

VENDOR = "metax"
_LISTED = re.compile(r"GPU#(\d+)\s+(\S+)\s+([0-9A-Fa-f:]+\.\d)\s+(Available|Not Available)\s*(?:\((.*)\))?\s*$")


def read(text: str) -> Inspection:
    found = Inspection()
    lines = text.split("\n")
    for line in lines:
        if listed := _LISTED.match(line):
            _listed(listed, found)
        elif line.startswith("GPU#"):
            found.half(f"a line is torn: {line.strip()[:60]}")
    if found.devices:
        return found
    attached = re.search(r"Attached GPUs\s*:\s*(\d+)", text)
    versions = {
        name: match.group(1)
        for name, pattern in (
            ("driver", r"Driver Version:\s*(\S+)"),
            ("maca", r"MACA Version:\s*(\S+)"),
            ("bios", r"BIOS Version:\s*(\S+)"),
        )
        if (match := re.search(pattern, text))
    }
    for block in table.blocks(lines):
        if any(re.match(r"Process(es)?:", cell) for row in block.rows for cell in row):
            break
        if not _card(block, found) and block.torn:
            found.half("a row of the table is torn")
    found.node.details |= versions
    if attached:
        found.node.details["attached_gpus"] = int(attached.group(1))
        if int(attached.group(1)) != len(found.devices):
            found.half(f"{attached.group(1)} GPUs are attached, {len(found.devices)} are described")
    elif not found.devices:
        found.half("nothing of mx-smi was recognised")
    else:
        found.half("the number of attached GPUs is missing")
    return found


def _listed(listed: re.Match[str], found: Inspection) -> None:
    device = found.device(int(listed.group(1)))
    device.vendor, device.model, device.bus = VENDOR, listed.group(2), listed.group(3)
    device.healthy = listed.group(4) == "Available"
    device.details["available"] = device.healthy
    if uuid := re.match(r"UUID:\s*(\S+)", listed.group(5) or ""):
        device.details["uuid"] = uuid.group(1)
    elif listed.group(5):
        device.problems.append(f"not available: {listed.group(5)}")


def _card(block: table.Block, found: Inspection) -> bool:
    if len(block.rows) < 2 or any(len(row) < 3 for row in block.rows[:2]):
        return False
    one, two = block.rows[0], block.rows[1]
    name, bus = re.match(r"(\d+)\s+(\S+(?: \S+)*?)(?:\s{2,}.*)?$", one[0]), table.bus_of(one[1])
    if not name or bus is None:
        return False
    device = found.device(int(name.group(1)))
    device.vendor, device.model, device.bus, device.healthy = VENDOR, name.group(2), bus, True
    device.details |= {
        "temperature_c": table.whole(two[0]),
        "power_w": table.whole(match.group(1)) if (match := re.search(r"(\d+)\s*W", two[0])) else None,
        "utilization_percent": table.whole(one[2]),
    }
    if usage := table.pair(two[1]):
        device.details["used_mib"], device.memory_mib = usage
    state = next((cell for row in block.rows for cell in row if re.search(r"Not Available|Unavailable", cell)), None)
    if state:
        device.healthy = False
        device.problems.append(state)
    return True
