"""Gaudi: the table of `hl-smi`."""

import re

from agents.devices import table
from muster.inspection import Inspection

VENDOR = "gaudi"


def read(text: str) -> Inspection:
    found = Inspection()
    closed, processes = True, False
    versions = dict(re.findall(r"(HL-SMI|Driver) Version:\s+(\S+)", text))
    for block in table.blocks(text.split("\n")):
        processes = processes or any("Processes:" in cell for row in block.rows for cell in row)
        if processes:
            continue
        card = _card(block, found)
        closed = block.closed if card or block.torn else closed
        if block.torn or (not card and found.devices and not block.closed):
            found.half("a row of the table is torn")
    if not found.devices and not versions:
        found.half("nothing of hl-smi was recognised")
        return found
    found.node.details |= {"tool": versions.get("HL-SMI"), "driver": versions.get("Driver")}
    for device in found.devices:
        device.details["driver"] = versions.get("Driver")
    if not versions:
        found.half("the table has no header: it begins in the middle")
    if not closed:
        found.half("the table ends in the middle")
    elif not processes:
        found.half("the part with processes is missing: more devices may have been listed")
    return found


def _card(block: table.Block, found: Inspection) -> bool:
    if len(block.rows) < 2 or any(len(row) != 3 for row in block.rows[:2]):
        return False
    one, two = block.rows[0], block.rows[1]
    name, bus = re.match(r"(\d+)\s+(\S.*?)\s+(?:On|Off|N/A)$", one[0]), table.bus_of(one[1])
    if not name or bus is None:
        return False
    device = found.device(int(name.group(1)))
    device.vendor, device.model, device.bus = VENDOR, name.group(2), bus
    errors = table.whole(one[2])
    readings = re.match(r"(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s*/\s*(\S+)", two[0])
    device.details |= {"ecc_errors": errors, "utilization_percent": table.whole(two[2])}
    if readings:
        device.details |= {
            "temperature_c": table.whole(readings.group(2)),
            "power_w": table.whole(readings.group(4)),
            "power_cap_w": table.whole(readings.group(5)),
        }
    if usage := table.pair(two[1]):
        device.details["used_mib"], device.memory_mib = usage
    device.healthy = not errors
    if errors:
        device.problems.append(f"{errors} uncorrected ECC errors")
    return True
