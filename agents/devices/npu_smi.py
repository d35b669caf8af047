"""`npu-smi info`: the table, the mapping (`-m`), and the key-value pages (`-t board|usages|health`)."""

import re
from typing import Any, Final

from agents.devices import table
from muster.inspection import FoundDevice, Inspection

_COLUMNS: Final = re.compile(r"NPU ID|Slot ID|Chip Logic ID|Chip Phy-ID|Chip ID|Chip Name")
_COMMAND: Final = re.compile(r"npu-smi info\b.*?-i\s+(\d+)(?:.*?-c\s+(\d+))?.*?-t\s+(\w+)")
_PAGE: Final = re.compile(r"^\s+([A-Z][\w /()%-]*?)\s*:\s*(.*)$")
_PCIE: Final = re.compile(r"^((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d) Processing accelerators: Huawei")
_BAD: Final = {"alarm", "critical", "fault", "offline", "unhealthy", "abnormal"}


def read(text: str, into: Inspection) -> bool:
    """False when nothing here is of this tool."""
    lines = text.split("\n")
    known = [_table(lines, into), _mapping(lines, into), _pages(lines, into)]
    into.devices.sort(key=lambda device: device.index)
    return any(known)


def _table(lines: list[str], into: Inspection) -> bool:
    head = next((line for line in lines if re.search(r"npu-smi\s+\S+.*Version:", line)), None)
    hbm = any("HBM-Usage" in line for line in lines)
    ends = ddr_only = 0
    closed, processes = True, False
    for block in table.blocks(lines):
        joined = " ".join(cell for row in block.rows for cell in row)
        processes = processes or "Process id" in joined
        if processes:
            _process_rows(block, into)
            continue
        found = _chip(block, into, hbm or head is None)
        ends += found
        ddr_only += not found
        closed = block.closed if found or block.torn else closed
        if block.torn or (not found and not block.closed and ends):
            into.half("a row of the table is torn")
    if not ends and head is None:
        return False
    if head is None:
        into.half("the table has no header: it begins in the middle")
    elif version := re.search(r"npu-smi\s+(\S+).*Version:\s*(\S+)", head):
        into.node.details |= {"tool": version.group(1), "driver": version.group(2)}
    rules = [line.strip()[:3] for line in lines if re.match(r"\s*\+[-=]", line)]
    if ends and not processes and rules[-2:] != ["+--", "+=="]:
        into.half("nothing tells that the last NPU was the last: no table of processes, no closing rule of its own")
    if not closed:
        into.half("the table has no closing rule: it ends in the middle")
    if not ends:
        into.half("a header without devices")
    return True


def _chip(block: table.Block, into: Inspection, hbm: bool) -> int:
    """One chip is two rows: NPU, health, power; then chip, address, memory."""
    if len(block.rows) < 2 or any(len(row) != 3 for row in block.rows[:2]):
        return 0
    one, two = block.rows[0], block.rows[1]
    name, chip = re.match(r"(\d+)\s+(\S.*)$", one[0]), re.match(r"(\d+)(?:\s+(\d+))?$", two[0])
    if not name or not chip or not re.match(r"[0-9A-Fa-fxX]{4}:", two[1]):
        return 0
    npu, number = int(name.group(1)), int(chip.group(1))
    given = int(chip.group(2)) if chip.group(2) else npu if number == 0 else into.free_index()
    taken = {device.index for device in into.devices}
    device = into.device(into.free_index() if given in taken else given)
    device.vendor, device.model, device.bus = "ascend", name.group(2).strip(), table.bus_of(two[1])
    device.details |= {"npu_id": npu, "chip_id": number, "device_id": table.whole(chip.group(2)), "health": one[1]}
    _health(device, one[1])
    readings = re.match(r"(\S+)\s+(\S+)\s*(?:(\d+)\s*/\s*(\d+))?", one[2])
    if readings:
        device.details |= {"power_w": table.number(readings.group(1)), "temperature_c": table.whole(readings.group(2))}
    pairs = [(int(used), int(total)) for used, total in re.findall(r"(\d+)\s*/\s*(\d+)", two[2])]
    device.details["aicore_percent"] = table.whole(two[2])
    names = ("ddr", "hbm") if len(pairs) > 1 and hbm else ("ddr",)
    for kind, (used, total) in zip(names, pairs, strict=False):
        device.details |= {f"{kind}_mib": total, f"{kind}_used_mib": used}
    if "hbm_mib" not in device.details:
        device.details["hbm_mib"] = None
    device.memory_mib = device.details["hbm_mib"] or device.details.get("ddr_mib") or None
    device.details["used_mib"] = device.details.get("hbm_used_mib" if device.details["hbm_mib"] else "ddr_used_mib")
    return 1


def _health(device: FoundDevice, word: str) -> None:
    low = word.lower()
    device.healthy = True if low in ("ok", "warning") else False if low in _BAD else None
    if low not in ("ok", "na", ""):
        device.problems.append(f"health is {word}" + (": usable but flagged" if low == "warning" else ""))


def _process_rows(block: table.Block, into: Inspection) -> None:
    for row in block.rows:
        ids = re.match(r"(\d+)\s+(\d+)$", row[0])
        if not ids or len(row) != 4 or not row[1].isdigit():
            continue
        for device in into.devices:
            if (device.details["npu_id"], device.details["chip_id"]) == (int(ids.group(1)), int(ids.group(2))):
                item = {"pid": int(row[1]), "name": row[2], "used_mib": table.whole(row[3])}
                device.details.setdefault("processes", []).append(item)


def _mapping(lines: list[str], into: Inspection) -> bool:
    start = next((i for i, line in enumerate(lines) if "NPU ID" in line and "Chip Name" in line), None)
    if start is None:
        return False
    columns = _COLUMNS.findall(lines[start])
    for line in lines[start + 1 :]:
        cells = line.split(None, len(columns) - 1)
        if not cells:
            continue
        if len(cells) < len(columns) or not cells[0].isdigit():
            into.half(f"not a row of the mapping: {line.strip()[:60]}")
            continue
        row = dict(zip(columns, cells, strict=True))
        if not all(re.fullmatch(r"\d+|-|NA", value) for name, value in row.items() if name != "Chip Name"):
            into.half(f"not a row of the mapping: {line.strip()[:60]}")
            continue
        ids = {name: table.whole(value) for name, value in row.items() if name != "Chip Name"}
        logic = ids.get("Chip Logic ID")
        name = row["Chip Name"].strip()
        if re.match(r"(?:-|\d+)\s", name):
            into.half("the header lacks a column that the rows have")
        if name.lower().endswith("mcu") or name.startswith("-") or row.get("Chip Logic ID") == "-":
            into.node.details["mcu_rows"] = into.node.details.get("mcu_rows", 0) + 1
            continue
        wanted = next((n for n in (logic, ids.get("Chip Phy-ID"), ids["NPU ID"]) if n is not None), 0)
        device = into.device(into.free_index() if wanted in {d.index for d in into.devices} else wanted)
        device.vendor, device.model = "ascend", row["Chip Name"].strip()
        device.details |= {
            "npu_id": ids["NPU ID"],
            "chip_id": ids.get("Chip ID"),
            "logic_id": logic,
            "phy_id": ids.get("Chip Phy-ID"),
            "slot_id": ids.get("Slot ID"),
        }
    if not into.devices:
        into.half("a header without devices")
    return True


def _pages(lines: list[str], into: Inspection) -> bool:
    npu: int | None = None
    known, page, key = False, "", ""
    pcie: list[str] = []
    for line in lines:
        command, entry, address = _COMMAND.search(line), _PAGE.match(line), _PCIE.match(line)
        if command:
            known, npu, page, key = True, int(command.group(1)), command.group(3), ""
        elif address:
            known = True
            pcie.append(address.group(1))
        elif line.startswith("Invalid card id") and npu is not None:
            device = _of(into, npu)
            device.healthy = False
            device.problems.append(f"the tool does not know it any more: {line.strip()}")
        elif entry and page != "info":
            key, value = entry.group(1), entry.group(2).strip()
            known |= key in ("NPU ID", "Health Status", "Chip Name", "HBM Capacity(MB)")
            npu = table.whole(value) if key == "NPU ID" else npu
            _entry(_of(into, npu or 0), key, value)
        elif (more := re.match(r"^\s+:\s*(\S.*)$", line)) and key == "Error Information":
            _of(into, npu or 0).details.setdefault("error_information", []).append(more.group(1))
    if pcie:
        _missing(pcie, into)
    return known


def _of(into: Inspection, npu: int) -> FoundDevice:
    device = into.device(npu)
    device.vendor = "ascend"
    device.details.setdefault("npu_id", npu)
    return device


def _entry(device: FoundDevice, key: str, value: str) -> None:
    told: Any = None if value in ("NA", "") else value
    if key == "Health Status":
        device.details["health"] = told
        _health(device, value)
    elif key == "Error Code":
        device.details["error_codes"] = (told or "").split()
        if told:
            device.problems.append(f"error codes {told}")
    elif key == "Error Information":
        device.details["error_information"] = [told] if told else []
        if told and "heart beat lost" in value.lower():
            device.problems.append("heartbeat lost: drain")
    elif key == "PCIe Bus Info":
        device.bus = table.bus_of(value)
    elif key == "Chip Name":
        device.model = told
    elif key == "HBM Capacity(MB)":
        device.memory_mib = device.details["hbm_mib"] = table.whole(value)
    elif key == "DDR Capacity(MB)":
        device.details["ddr_mib"] = table.whole(value)
    else:
        names = {"Software Version": "driver", "Firmware Version": "firmware"}
        name = names.get(key, re.sub(r"[^a-z0-9]+", "_", key.lower()).strip("_"))
        if told is not None or name not in device.details:
            device.details[name] = int(told) if told and told.isdigit() else told


def _missing(pcie: list[str], into: Inspection) -> None:
    """Cards sit in pairs of neighbouring addresses: one without a neighbour tells of a card that is gone."""
    into.node.details |= {"pcie_devices": pcie, "pcie_count": len(pcie)}
    numbers = {int(address.split(":")[-2], 16): address for address in pcie}
    left = sorted(numbers)
    alone: list[int] = []
    while left:
        first = left.pop(0)
        if left and left[0] == first + 1:
            left.pop(0)
        else:
            alone.append(first)
    if len(alone) == 1 and len(pcie) > 2:
        near = [
            re.sub(r"[0-9a-f]{2}(?=:[0-9a-f]{2}\.)", f"{alone[0] + step:02x}", numbers[alone[0]]) for step in (1, -1)
        ]
        into.node.details |= {"expected_devices": len(pcie) + 1, "missing_bus": near}
        into.note(
            f"{len(pcie)} accelerators on PCIe, all but {numbers[alone[0]]} in pairs: {near[0]} (or {near[1]}) is gone"
        )
