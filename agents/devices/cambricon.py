"""Cambricon: the table of `cnmon`, version 4 (no PCI address) and 5."""

import re

from agents.devices import table
from muster.inspection import Inspection

VENDOR = "cambricon"


def read(text: str) -> Inspection:
    found = Inspection()
    lines = text.split("\n")
    head = next((line for line in lines if "CNMON" in line), None)
    modes = any("Mode" in line and "Compute-Mode" in line for line in lines)
    closed, processes = True, False
    for block in table.blocks(lines):
        if any("Processes:" in cell for row in block.rows for cell in row):
            processes = True
            break
        card = _card(block, found, modes)
        closed = block.closed if card or block.torn else closed
        if block.torn or (not card and found.devices and not block.closed):
            found.half("a row of the table is torn")
    if head is None and not found.devices:
        found.half("nothing of cnmon was recognised")
        return found
    if head is None:
        found.half("the table has no header: it begins in the middle")
    elif version := re.search(r"CNMON v(\S+)(?:.*Driver v(\S+))?", head):
        found.node.details |= {"tool": version.group(1), "driver": version.group(2)}
    if not closed or not found.devices:
        found.half("the table ends in the middle")
    elif not processes:
        found.half("no table of processes follows: more cards may have been listed")
    return found


def _card(block: table.Block, found: Inspection, modes: bool) -> bool:
    if len(block.rows) < 2 or any(len(row) != 3 for row in block.rows[:2]):
        return False
    one, two = block.rows[0], block.rows[1]
    name = re.match(r"(\d+)\s+(\S+)\s+(\S+)\s+(v\S+)$", one[0])
    if not name:
        return False
    device = found.device(int(name.group(1)))
    device.vendor, device.model, device.bus = VENDOR, name.group(3), table.bus_of(one[1])
    readings = re.match(r"(\S+)\s+(\S+)\s+(\d+|N/A)\s*W?\s*/\s*(\d+|N/A)", two[0])
    errors = table.whole(one[2].split()[-1]) if one[2] else None
    device.details |= {"firmware": name.group(4), "utilization_percent": table.whole(one[2]), "ecc_errors": errors}
    if driver := re.search(r"\bv(\d\S+)$", one[1]):
        device.details["driver"] = driver.group(1)
    if readings:
        device.details |= {
            "temperature_c": table.whole(readings.group(2)),
            "power_w": table.whole(readings.group(3)),
            "power_cap_w": table.whole(readings.group(4)),
        }
    if usage := table.pair(two[1]):
        device.details["used_mib"], device.memory_mib = usage
    if virtual := table.pair(two[2]):
        device.details["virtual_memory_mib"] = virtual[1]
    elif modes and two[2]:
        device.details["mode"] = two[2].split()[0]
    device.healthy = not errors
    if errors:
        device.problems.append(f"{errors} ECC errors")
    return True
