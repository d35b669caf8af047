"""`rocm-smi` of AMD and of Hygon's DTK (same tool, other keys and units), and `amd-smi`: JSON and text."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from agents.devices import table
from muster.inspection import FoundDevice, Inspection

_MEMORY: Final = re.compile(r"vram total memory \((b|mib|mb|gib)\)$", re.IGNORECASE)
_USED: Final = re.compile(r"vram total used memory \((b|mib|mb|gib)\)$", re.IGNORECASE)
_UNIT: Final = {"b": 1024 * 1024, "mib": 1, "mb": 1, "gib": 1 / 1024}
_LINE: Final = re.compile(r"^(?:GPU|HCU|DCU)\[(\d+)\]\s*:\s*(.+?)\s*:\s*(.*)$")
_NAMES: Final = {
    "gfx version": "gfx",
    "node id": "node_id",
    "unique id": "unique_id",
    "vbios version": "vbios",
    "pcie replay count": "pcie_replays",
    "serial number": "serial",
}


def read_json(text: str, into: Inspection, vendor: str) -> bool:
    """False when no JSON of these tools is here."""
    start = min((at for at in (text.find("{"), text.find("[\n"), text.find("[{")) if at >= 0), default=-1)
    if start < 0 or not re.search(r'"(?:card\d+|gpu|gpu_data)"\s*:', text):
        return False
    try:
        tree, _ = json.JSONDecoder().raw_decode(text, start)
    except ValueError:
        into.half("the JSON ends or breaks in the middle")
        tree = dict(_whole_cards(text))
    if isinstance(tree, dict) and isinstance(tree.get("gpu_data"), list):
        tree = tree["gpu_data"]
    if isinstance(tree, list):
        for item in tree:
            if isinstance(item, dict) and isinstance(item.get("gpu"), int):
                _amd_item(item, into, vendor)
        return True
    for name, facts in tree.items():
        if isinstance(facts, dict) and (card := re.fullmatch(r"card(\d+)", str(name))):
            _card(int(card.group(1)), {str(k): str(v) for k, v in facts.items()}, into, vendor)
        elif name == "system" and isinstance(facts, dict):
            into.node.details["driver"] = facts.get("Driver version")
            _links(facts, into)
    return True


def _whole_cards(text: str) -> Iterator[tuple[str, Any]]:
    """The objects of a broken document that are themselves whole."""
    for found in re.finditer(r'"(card\d+|system)"\s*:\s*', text):
        try:
            yield found.group(1), json.JSONDecoder().raw_decode(text, found.end())[0]
        except ValueError:
            continue


def _card(index: int, facts: dict[str, str], into: Inspection, vendor: str) -> None:
    device = into.device(index)
    device.vendor = device.vendor or vendor
    for key, value in facts.items():
        if key and value not in ("", "N/A"):
            _fact(device, key, value)


def _fact(device: FoundDevice, key: str, value: str) -> None:
    low = key.lower().strip()
    if low in ("card vendor", "card vendor id"):
        device.vendor = "hygon" if re.search(r"haiguang|hygon", value, re.IGNORECASE) else "amd"
        device.details["vendor_name"] = "Hygon" if device.vendor == "hygon" else value
    elif low == "card series" or (low == "device name" and device.model is None):
        device.model = value
    elif low in ("card model", "card sku", "device id", "gpu id"):
        device.details[low.replace(" ", "_")] = value
    elif low == "pci bus":
        device.bus = value
    elif match := _MEMORY.match(low):
        amount = float(value)
        device.memory_mib = int(amount / _UNIT[match.group(1).lower()])
        if match.group(1).lower() == "b":
            device.details["memory_bytes"] = int(amount)
    elif match := _USED.match(low):
        device.details["used_mib"] = int(float(value) / _UNIT[match.group(1).lower()])
    elif low == "(topology) numa node":
        device.numa = int(value) if value.isdigit() else None
    elif match := re.match(r"temperature \(sensor (\w+)\) \(c\)$", low):
        name = "temperature_c" if match.group(1) == "edge" else f"temperature_{match.group(1)}_c"
        device.details[name] = table.number(value)
    elif match := re.match(r"(?:average|current socket) graphics package power \(w\)$", low):
        device.details["power_w"] = table.number(value)
    elif low in ("max graphics package power (w)", "power cap (w)"):
        device.details["power_cap_w"] = table.number(value)
    elif low in ("gpu use (%)", "dcu use (%)", "hcu use (%)"):
        device.details["utilization_percent"] = table.whole(value)
    elif low in _NAMES:
        device.details[_NAMES[low]] = int(value) if value.isdigit() and low != "serial number" else value


def _amd_item(item: dict[str, Any], into: Inspection, vendor: str) -> None:
    """One object of `amd-smi list|static|metric --json`."""
    device = into.device(item["gpu"])
    device.vendor = vendor
    flat = dict(_flat(item))
    device.bus = flat.get("bdf") or flat.get("bus.bdf")
    device.model = flat.get("asic.market_name") or device.model
    size, unit = flat.get("vram.size.value"), str(flat.get("vram.size.unit", "MB")).lower()
    if isinstance(size, int):
        device.memory_mib = size * 1024 if unit == "gb" else size
    numa = flat.get("numa.node")
    device.numa = numa if isinstance(numa, int) and numa >= 0 else device.numa
    errors = flat.get("ecc.total_uncorrectable_count", flat.get("ecc.uncorrectable"))
    if isinstance(errors, int):
        device.details["ecc_uncorr"] = errors
        device.healthy = errors == 0
        if errors:
            device.problems.append(f"{errors} uncorrected ECC errors")
    device.details |= {
        key: value for key, value in flat.items() if key in ("uuid", "kfd_id", "node_id", "vbios.version")
    }


def _flat(tree: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif value != "N/A":
            yield f"{prefix}{key}", value


def _links(facts: dict[str, Any], into: Inspection) -> None:
    names = {"weight": "weight", "hops": "hops", "link type": "link_type"}
    for key, value in facts.items():
        pair = re.match(r"\(Topology\) (Weight|Hops|Link type) between DRM devices (\d+) and (\d+)$", str(key))
        if pair:
            table_of = into.node.details.setdefault(names[pair.group(1).lower()], {})
            table_of[f"{pair.group(2)}-{pair.group(3)}"] = int(value) if str(value).isdigit() else value


def read_lines(text: str, into: Inspection, vendor: str) -> bool:
    """`GPU[0] : key: value` lines."""
    known = False
    for line in text.split("\n"):
        if fact := _LINE.match(line):
            known = True
            device = into.device(int(fact.group(1)))
            device.vendor = device.vendor or vendor
            if fact.group(3) not in ("", "N/A"):
                _fact(device, fact.group(2), fact.group(3).strip())
    return known


def read_table(text: str, into: Inspection, vendor: str) -> bool:
    """The short table: columns are known by the header only, and differ by version."""
    lines = text.split("\n")
    start = next(
        (i for i, line in enumerate(lines) if re.match(r"\s*(HCU|DCU|GPU|Device)\s+.*(Temp|VRAM%)", line)), None
    )
    if start is None:
        return False
    columns = re.split(r"\s{2,}", lines[start].strip())
    closed = False
    for line in lines[start + 1 :]:
        cells = re.split(r"\s{2,}", line.strip())
        if re.match(r"\s*=+", line):
            closed = closed or bool(into.devices)
        elif cells[0].isdigit():
            if len(cells) < len(columns):
                into.half(f"a row of the table is torn: {line.strip()[:60]}")
                continue
            device = into.device(int(cells[0]))
            device.vendor = vendor
            _row(device, dict(zip(columns, cells, strict=False)) if len(cells) == len(columns) else {})
    if not closed:
        into.half("the table ends in the middle")
    return True


def _row(device: FoundDevice, row: dict[str, str]) -> None:
    names = {"Temp": "temperature_c", "AvgPwr": "power_w", "PwrCap": "power_cap_w", "VRAM%": "vram_percent"}
    for column, name in names.items():
        if column in row:
            device.details[name] = table.number(row[column])
    for column, value in row.items():
        if column in ("HCU%", "DCU%", "GPU%"):
            device.details["utilization_percent"] = table.number(value)
    if "Perf" in row:
        device.details["perf"] = row["Perf"]
    mode = row.get("Mode")
    if mode:
        device.details["mode"] = mode
        device.healthy = mode == "Normal"
        if mode != "Normal":
            device.problems.append(f"mode is {mode}")
