"""Moore Threads: the table of `mthreads-gmi`, three lines a device, without outer borders."""

import re

from agents.devices import table
from muster.inspection import FoundDevice, Inspection

VENDOR = "mthreads"


def read(text: str) -> Inspection:
    found = Inspection()
    device: FoundDevice | None = None
    part, closed, header = 0, False, False
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.split("|")]
        first = re.match(r"(\d+)\s{2,}(\S.*)$", cells[0]) if len(cells) == 3 else None
        if version := re.search(r"mthreads-gmi:(\S+)\s+Driver Version:\s*(\S+)", line):
            header = True
            found.node.details |= {"tool": version.group(1), "driver": version.group(2)}
        elif line.startswith("Processes"):
            break
        elif re.match(r"-{10,}", line):
            closed = bool(found.devices)
        elif first and (bus := table.bus_of(cells[1])):
            if device is not None and part < 3:
                found.half(f"GPU {device.index}: lines are missing")
            device, part, closed = found.device(int(first.group(1))), 1, False
            device.vendor, device.model, device.bus, device.healthy = VENDOR, first.group(2), bus, True
            _memory(device, cells[2])
        elif device is not None and len(cells) == 3 and part == 1:
            part = 2
            device.details |= {
                "pcie": cells[1],
                "temperature_c": table.whole(cells[2]),
                "type": cells[0].split("  ")[0],
            }
            _width(device, cells[1])
        elif device is not None and len(cells) == 2 and part == 2:
            part = 3
            device.details["ecc"] = cells[1]
    if not found.devices and not header:
        found.half("nothing of mthreads-gmi was recognised")
    elif not header:
        found.half("the table has no header: it begins in the middle")
    elif not closed or part not in (0, 3):
        found.half("the table ends in the middle")
    return found


def _memory(device: FoundDevice, cell: str) -> None:
    usage = re.search(r"(\d+)%\s+(\d+)MiB\((\d+)MiB\)", cell)
    if usage:
        device.details |= {"utilization_percent": int(usage.group(1)), "used_mib": int(usage.group(2))}
        device.memory_mib = int(usage.group(3))


def _width(device: FoundDevice, cell: str) -> None:
    width = re.match(r"(\d+)x\((\d+)x\)", cell)
    if width and int(width.group(1)) < int(width.group(2)):
        device.problems.append(f"PCIe width x{width.group(1)} of x{width.group(2)}")
