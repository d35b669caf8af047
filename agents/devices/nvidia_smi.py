"""`nvidia-smi` as a table, `-L`, `nvlink -s`, `--query-gpu` as CSV, and its one-line failures."""

import csv
import re
from typing import Final

from agents.devices import table
from muster.inspection import FoundDevice, Inspection

_HANDLE: Final = re.compile(
    r"Unable to determine the device handle for (?:GPU|gpu)\s*(\d+)?:?\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]):\s*([^.]+)"
)
_FIRST: Final = re.compile(r"(\d+)\s+(\S.*?)\s+(On|Off|N/A)$")
_LISTED: Final = re.compile(r"GPU\s+(\d+):\s+(.+?)\s+\(UUID:\s*([\w-]+)\)$")
_LINK: Final = re.compile(r"\s+Link\s+(\d+):\s+(.+)$")
_DRIVER: Final = re.compile(r"(?:Driver|KMD) Version:\s*([\w.]+)")
_CUDA: Final = re.compile(r"CUDA(?: UMD)? Version:\s*([\w.]+)")


def read(text: str, into: Inspection) -> bool:
    """False when nothing here is of this tool."""
    lines = text.split("\n")
    known = [_failures(lines, into), _table(lines, into), _links(lines, into), _csv(lines, into)]
    into.devices.sort(key=lambda device: device.index)
    return any(known)


def _failures(lines: list[str], into: Inspection) -> bool:
    known, lost_all = False, not any(line.lstrip().startswith("|") for line in lines)
    for line in map(str.strip, lines):
        handle = _HANDLE.search(line)
        if handle:
            known = True
            _lost(handle, into)
            if lost_all and len(lines) < 3:
                into.half("one unreadable GPU hides all others: no table follows")
        elif re.match(r"No devices were found", line):
            known = True
            into.note("No devices were found: unusable for GPU jobs if GPUs are expected")
            into.node.details["device_count"] = 0
        elif line.startswith("Failed to initialize NVML"):
            known = True
            into.half(f"devices unknown: {line}")
            into.node.details |= {"device_count": None, "error": line}
            if "version mismatch" in line:
                into.node.details["error"] = "NVML driver/library mismatch"
                into.note("driver and library differ: reboot or reload the driver; the hardware is not at fault")
        elif version := re.match(r"NVML library version:\s*([\d.]+)", line):
            into.node.details["nvml_library_version"] = version.group(1)
        elif re.match(r"NVIDIA-SMI has failed", line):
            known = True
            into.half(f"devices unknown: {line}")
    return known


def _lost(handle: re.Match[str], into: Inspection) -> None:
    index = int(handle.group(1)) if handle.group(1) else into.free_index()
    error = handle.group(3).strip()
    device = into.device(index)
    device.vendor, device.bus, device.healthy = "nvidia", handle.group(2), False
    device.problems.append(error)
    device.details |= {"listed": False, "health": "lost/unusable"}
    if not handle.group(1):
        device.details["index_known"] = False
    into.note(f"GPU {handle.group(1) or ''} {device.bus}: {error}".replace("  ", " "))
    into.note("with one GPU lost, new CUDA contexts may fail on all GPUs of this host: drain the node")


def _table(lines: list[str], into: Inspection) -> bool:
    head = "\n".join(line for line in lines if "NVIDIA-SMI" in line or "Version:" in line)
    common = {
        name: found.group(1)
        for name, pattern in (("driver", _DRIVER), ("cuda", _CUDA))
        if (found := pattern.search(head))
    }
    section, rows, last = "gpus", 0, True
    for block in table.blocks(lines):
        joined = " ".join(cell for row in block.rows for cell in row)
        if re.search(r"\bProcess(?:es)?:", joined):
            section = "processes"
        elif "MIG devices:" in joined:
            section = "mig"
        if section == "gpus":
            count = _device(block, into, common)
            rows += count
            last = block.closed if count or block.torn else last
            if block.torn:
                into.half("a row of the table is torn")
        elif section == "mig":
            _mig_rows(block, into)
    if not rows and not head:
        return False
    if rows and "NVIDIA-SMI" not in head:
        into.half("the table has no header: it begins in the middle")
    if rows and section == "gpus":
        into.half("no table of processes follows: more GPUs may have been listed")
    if not last:
        into.half("the table ends in the middle")
    if not rows and "NVIDIA-SMI" in head:
        into.half("a header without devices")
    into.node.details |= common
    _mig_capacity(into)
    return True


def _device(block: table.Block, into: Inspection, common: dict[str, str]) -> int:
    first = next((i for i, row in enumerate(block.rows) if _FIRST.match(row[0]) and len(row) >= 3), None)
    if first is None:
        return 0
    row = block.rows[first]
    found = _FIRST.match(row[0])
    bus = table.bus_of(row[1])
    if found is None or (bus is None and "lost" not in row[1].lower()):
        return 0
    device = into.device(int(found.group(1)))
    device.vendor, device.model, device.bus = "nvidia", found.group(2), bus
    device.healthy = True
    ecc = row[2]
    device.details |= {"persistence": found.group(3), "ecc": ecc, **common}
    if device.model.endswith("..."):
        device.details["model_cut"] = True
    if (errors := table.whole(ecc)) is not None and errors > 0:
        device.healthy = False
        device.problems.append(f"{errors} uncorrected volatile ECC errors")
    if len(block.rows) > first + 1:
        _readings(block.rows[first + 1], device)
    else:
        into.half(f"GPU {device.index}: its second line is missing")
    if len(block.rows) > first + 2:
        mode = block.rows[first + 2][-1]
        device.details["mig"] = None if mode in ("", "N/A") else mode
    if re.search(r"GPU is lost|Unknown Error|requires reset", " ".join(c for r in block.rows for c in r)):
        device.healthy = False
        device.problems.append("lost or in need of a reset")
    return 1


def _readings(row: list[str], device: FoundDevice) -> None:
    words = re.match(r"(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s*/\s*(\S+)", row[0])
    if words:
        device.details |= {
            "fan_percent": table.whole(words.group(1)),
            "temperature_c": table.whole(words.group(2)),
            "power_w": table.number(words.group(4)),
            "power_cap_w": table.number(words.group(5)),
        }
        for name, value in zip(("fan", "temperature", "performance state", "power"), words.groups(), strict=False):
            if value == "ERR!":
                device.problems.append(f"{name} sensor unreadable (ERR!)")
    usage = table.pair(row[1]) if len(row) > 1 else None
    if usage:
        device.details["used_mib"], device.memory_mib = usage
    if len(row) > 2:
        device.details["utilization_percent"] = table.whole(row[2])


def _mig_rows(block: table.Block, into: Inspection) -> None:
    for row in block.rows:
        ids = re.match(r"(\d+)\s+(\d+)\s+(\d+)\s+(\d+)$", row[0])
        if not ids or len(row) < 3:
            continue
        gpu, instance, compute, number = map(int, ids.groups())
        known = [device for device in into.devices if device.index == gpu]
        usage = table.pair(row[1])
        item = {"index": number, "gi": instance, "ci": compute, "sm": table.whole(row[2])}
        if usage:
            item |= {"used_mib": usage[0], "memory_mib": usage[1]}
        for device in known:
            device.details.setdefault("mig_devices", []).append(item)


def _mig_capacity(into: Inspection) -> None:
    for device in into.devices:
        if device.details.get("mig") == "Enabled":
            instances = device.details.setdefault("mig_devices", [])
            device.details["schedulable_units"] = len(instances)
            if not instances:
                device.problems.append("MIG is on and no instance exists: nothing can run on it")


def _links(lines: list[str], into: Inspection) -> bool:
    device, seen = None, False
    for line in lines:
        listed = _LISTED.match(line.strip())
        link = _LINK.match(line)
        if listed:
            seen = True
            device = into.device(int(listed.group(1)))
            device.vendor, device.model = "nvidia", listed.group(2)
            device.details["uuid"] = listed.group(3)
        elif link and device is not None:
            links = device.details.setdefault("links", {})
            links[link.group(1)] = table.number(link.group(2))
            if links[link.group(1)] is None:
                device.healthy = False
                device.problems.append(f"NVLink {link.group(1)} is {link.group(2).strip('<> ')}")
    if not seen:
        return False
    for found in into.devices:
        links = found.details.get("links")
        if links is not None:
            rates = {rate for rate in links.values() if rate is not None}
            found.details |= {"link_count": len(links), "inactive_links": sum(rate is None for rate in links.values())}
            found.details["link_gbytes_per_s"] = rates.pop() if len(rates) == 1 else None
            found.healthy = found.healthy is not False
    counts = {len(found.details.get("links", {})) for found in into.devices if "uuid" in found.details}
    if len(counts) > 1:
        into.half("the GPUs have different numbers of links: the list may be cut")
    return True


def _csv(lines: list[str], into: Inspection) -> bool:
    rows = [
        row for row in csv.reader((line for line in lines if "\0" not in line), skipinitialspace=True) if len(row) > 1
    ]
    header = next(
        (row for row in rows if row[0].split(" ")[0] in ("index", "name", "uuid", "pci.bus_id", "timestamp")), None
    )
    if any(line.lstrip().startswith(("|", "+", "<")) for line in lines):
        return False
    known = False
    for row in rows:
        if row is header:
            continue
        if header and len(row) != len(header):
            into.half("a row of the CSV is torn")
        elif header or (row[0].strip().isdigit() and len(row) > 2 and any(table.bus_of(cell) for cell in row)):
            known = True
            _csv_row([name.split(" ")[0] for name in header] if header else None, row, into)
    return known


def _csv_row(header: list[str] | None, row: list[str], into: Inspection) -> None:
    cells = [cell.strip() for cell in row]
    named = dict(zip(header or (), cells, strict=False))
    index = named.get("index", cells[0] if header is None else "")
    device = into.device(int(index) if index.isdigit() else into.free_index())
    device.vendor, device.healthy = "nvidia", True
    device.bus = next((bus for cell in cells if (bus := table.bus_of(cell))), None)
    device.model = named.get("name") or next(
        (cell for cell in cells[1:] if re.search(r"[A-Za-z]{3}", cell) and not cell.startswith("GPU-")), None
    )
    device.memory_mib = table.whole(named.get("memory.total"))
    device.details |= named
    for cell in cells if header is None else ():
        if cell.endswith(" W"):
            device.details["power_w"] = table.number(cell)
    if any("Unknown Error" in cell or "GPU is lost" in cell for cell in cells):
        device.healthy = False
        device.problems.append("lost")
