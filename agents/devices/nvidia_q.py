"""`nvidia-smi -q` as text and as XML (`-x`): one tree of sections, one reading."""

import re
import xml.etree.ElementTree as ET
from typing import Any, Final

from agents.devices import table
from muster.inspection import FoundDevice, FoundEvent, Inspection

Tree = dict[str, Any]
_SECTIONS: Final = re.compile(r"^(\s*)(\S[^:]*?)\s*(?::\s?(.*))?$")
_FRAGMENT: Final = {
    "ecc_uncorrected_volatile": ("ecc", "volatile_uncorrected"),
    "ecc_corrected_volatile": ("ecc", "volatile_corrected"),
    "row_remap_correctable": ("remap", "corr"),
    "row_remap_uncorrectable": ("remap", "uncorr"),
    "row_remap_pending": ("remap", "pending"),
    "row_remap_failure": ("remap", "failure"),
}


def read(text: str, into: Inspection) -> bool:
    """False when nothing here is of this tool."""
    if "<nvidia_smi_log" in text:
        return _xml(text, into)
    if re.search(r"^(Attached GPUs|GPU [0-9A-Fa-f:.]{12,})", text, re.MULTILINE) and "|" not in text[:200]:
        return _text(text, into)
    return _fragment(text, into)


def _xml(text: str, into: Inspection) -> bool:
    if "<!ENTITY" in text:
        into.half("the XML declares entities: not read")
        return True
    parser: Any = ET.XMLPullParser(events=("end",))
    top: Tree = {}
    gpus: list[tuple[str, Tree]] = []
    try:
        parser.feed(text[text.index("<nvidia_smi_log") :])
        parser.close()
    except ET.ParseError as error:
        into.half(f"the XML ends or breaks in the middle: {error}")
    try:
        for _, element in parser.read_events():
            if element.tag == "gpu":
                gpus.append((element.get("id", ""), _branch(element)))
            elif element.tag in ("driver_version", "cuda_version", "attached_gpus"):
                top[element.tag] = (element.text or "").strip()
    except ET.ParseError:
        pass
    _top(top, len(gpus), into)
    for bus, tree in gpus:
        _gpu(bus, tree, into)
    return True


def _branch(element: ET.Element) -> Tree:
    tree: Tree = {}
    for child in element:
        value: Any = _branch(child) if len(child) else (child.text or "").strip()
        key = _key(child.tag)
        if key in tree:
            tree[key] = [*(tree[key] if isinstance(tree[key], list) else [tree[key]]), value]
        else:
            tree[key] = value
    return tree


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _text(text: str, into: Inspection) -> bool:
    top: Tree = {}
    gpus: list[tuple[str, Tree]] = []
    stack: list[tuple[int, Tree]] = [(-1, top)]
    for line in text.split("\n"):
        found = _SECTIONS.match(line)
        if not found or line.strip().startswith(("[...]", "==", "Timestamp")):
            if line.strip() == "[...]":
                into.half("parts were left out: [...]")
            continue
        indent, name, value = len(found.group(1).expandtabs()), found.group(2), found.group(3)
        header = re.match(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])$", line.strip())
        if header and indent == 0:
            gpus.append((header.group(1), {}))
            stack = [(0, gpus[-1][1])]
            continue
        while len(stack) > 1 and indent <= stack[-1][0]:
            stack.pop()
        if value is None:
            branch: Tree = {}
            stack[-1][1][_key(name)] = branch
            stack.append((indent, branch))
        else:
            stack[-1][1][_key(name)] = value.strip()
    _top(top, len(gpus), into)
    for bus, tree in gpus:
        _gpu(bus, tree, into)
    return True


def _top(top: Tree, found: int, into: Inspection) -> None:
    attached = table.whole(str(top.get("attached_gpus", "")))
    details = {"driver": top.get("driver_version"), "cuda": top.get("cuda_version"), "attached_gpus": attached}
    into.node.details |= details | {"gpu_blocks": found}
    if attached is None:
        into.half("the number of attached GPUs is missing")
    elif attached != found:
        into.half(f"{attached} GPUs are attached, {found} are described")


def _at(tree: Any, *paths: str) -> str | None:
    """The first of several dotted paths that leads to a value which is not N/A."""
    for path in paths:
        node = tree
        for step in path.split("."):
            node = node.get(step) if isinstance(node, dict) else None
        if isinstance(node, str) and node not in ("", "N/A", "None") and "deprecated" not in node:
            return node
    return None


def _flag(value: str | None) -> bool | None:
    return None if value is None else value.lower().startswith("y")


def _gpu(bus: str, tree: Tree, into: Inspection) -> None:
    minor = table.whole(_at(tree, "minor_number"))
    taken = {device.index for device in into.devices}
    device = into.device(into.free_index() if minor is None or minor in taken else minor)
    device.vendor, device.bus = "nvidia", bus or _at(tree, "pci.pci_bus_id", "pci.bus_id")
    device.model = _at(tree, "product_name")
    device.memory_mib = table.whole(_at(tree, "fb_memory_usage.total"))
    details: dict[str, Any] = {
        "uuid": _at(tree, "uuid", "gpu_uuid"),
        "serial": _at(tree, "serial", "serial_number"),
        "used_mib": table.whole(_at(tree, "fb_memory_usage.used")),
        "ecc_mode": _at(tree, "ecc_mode.current_ecc", "ecc_mode.current"),
        "ecc": _ecc(tree),
        "remap": _remap(tree),
        "mig": _at(tree, "mig_mode.current_mig", "mig_mode.current"),
        "mig_devices": _mig(tree),
        "recovery_action": _at(tree, "gpu_recovery_action"),
        "reset_required": _flag(_at(tree, "gpu_reset_status.reset_required")),
        "throttle_active": _throttle(tree),
        "pcie": {
            "gen": table.whole(_at(tree, "pci.pci_gpu_link_info.pcie_gen.current_link_gen")),
            "gen_max": table.whole(_at(tree, "pci.pci_gpu_link_info.pcie_gen.max_link_gen")),
            "width": table.whole(_at(tree, "pci.pci_gpu_link_info.link_widths.current_link_width")),
            "width_max": table.whole(_at(tree, "pci.pci_gpu_link_info.link_widths.max_link_width")),
            "replays": table.whole(_at(tree, "pci.replay_counter")),
        },
        "temperature_c": table.whole(_at(tree, "temperature.gpu_temp", "temperature.gpu_current_temp")),
        "fabric": {"state": _at(tree, "fabric.state"), "status": _at(tree, "fabric.status")},
        "processes": _processes(tree),
    }
    device.details |= details
    _judge(device)


def _ecc(tree: Tree) -> dict[str, int | None] | None:
    errors = tree.get("ecc_errors")
    if not isinstance(errors, dict):
        return None
    out: dict[str, int | None] = {}
    for span in ("volatile", "aggregate"):
        for part in ("sram", "dram"):
            out[f"{span}_{part}_corr"] = table.whole(_at(errors, f"{span}.{part}_correctable"))
            names = [f"{span}.{part}_uncorrectable{kind}" for kind in ("", "_parity", "_secded", "_sec_ded")]
            counts = [n for name in names if (n := table.whole(_at(errors, name))) is not None]
            out[f"{span}_{part}_uncorr"] = sum(counts) if counts else None
    return out


def _remap(tree: Tree) -> dict[str, Any] | None:
    rows = tree.get("remapped_rows")
    if not isinstance(rows, dict):
        return None
    histogram = rows.get("bank_remap_availability_histogram", rows.get("row_remapper_histogram"))
    banks = {
        name: table.whole(_at(histogram, name, f"row_remapper_histogram_{name}"))
        for name in ("max", "high", "partial", "low", "none")
    }
    return {
        "corr": table.whole(_at(rows, "correctable_error", "remapped_row_corr")),
        "uncorr": table.whole(_at(rows, "uncorrectable_error", "remapped_row_unc")),
        "pending": _flag(_at(rows, "pending", "remapped_row_pending")),
        "failure": _flag(_at(rows, "remapping_failure_occurred", "remapped_row_failure")),
        "banks": banks if any(value is not None for value in banks.values()) else None,
    }


def _mig(tree: Tree) -> list[dict[str, Any]]:
    section = tree.get("mig_devices")
    items = section.get("mig_device", []) if isinstance(section, dict) else []
    return [
        {
            "index": table.whole(_at(item, "index")),
            "gi": table.whole(_at(item, "gpu_instance_id")),
            "ci": table.whole(_at(item, "compute_instance_id")),
            "sm": table.whole(_at(item, "device_attributes.shared.multiprocessor_count")),
            "memory_mib": table.whole(_at(item, "fb_memory_usage.total")),
            "used_mib": table.whole(_at(item, "fb_memory_usage.used")),
        }
        for item in (items if isinstance(items, list) else [items])
    ]


def _throttle(tree: Tree) -> list[str] | None:
    section = tree.get("clocks_event_reasons", tree.get("clocks_throttle_reasons"))
    if not isinstance(section, dict):
        return None
    return [
        re.sub(r"^clocks_(event|throttle)_reason_", "", name) for name, value in section.items() if value == "Active"
    ]


def _processes(tree: Tree) -> list[dict[str, Any]]:
    section = tree.get("processes")
    items = section.get("process_info", []) if isinstance(section, dict) else []
    return [
        {
            "pid": table.whole(_at(item, "pid")),
            "type": _at(item, "type"),
            "used_mib": table.whole(_at(item, "used_memory")),
        }
        for item in (items if isinstance(items, list) else [items])
    ]


def _judge(device: FoundDevice) -> None:
    """The driver's own verdict first; then the remapper, whose failure only a new GPU mends."""
    details, remap = device.details, device.details.get("remap") or {}
    device.healthy = True
    action = details.get("recovery_action")
    if action:
        device.healthy = False
        device.problems.append(f"the driver asks for recovery: {action}")
    if details.get("reset_required"):
        device.healthy = False
        device.problems.append("reset required")
    if remap.get("failure"):
        device.healthy = False
        device.problems.append("failed: row remapping failed: replace the GPU, never retry on it")
    elif remap.get("pending"):
        device.problems.append(
            "degraded: a row remap waits for a reset: finish the job, then reset; no case for replacement"
        )
    ecc = details.get("ecc") or {}
    if any(count for name, count in ecc.items() if "uncorr" in name and "aggregate" not in name):
        device.healthy = False
        device.problems.append("uncorrected memory errors since the last reset")
    for reason in details.get("throttle_active") or ():
        if reason.startswith(("hw_", "sw_thermal")):
            device.problems.append(f"throttled: {reason}")
    pcie = details.get("pcie") or {}
    if pcie.get("width") and pcie.get("width_max") and pcie["width"] < pcie["width_max"]:
        device.problems.append(f"PCIe width x{pcie['width']} of x{pcie['width_max']}")
    if details.get("mig") == "Enabled" and not details.get("mig_devices"):
        device.problems.append("MIG is on and no instance exists: nothing can run on it")


def _fragment(text: str, into: Inspection) -> bool:
    """Loose `key: value` lines about one GPU, as health checks quote them."""
    found: dict[str, dict[str, Any]] = {}
    bus = None
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        place = _FRAGMENT.get(name.strip())
        if place:
            told = _flag(value.strip()) if place[1] in ("pending", "failure") else table.whole(value)
            found.setdefault(place[0], {})[place[1]] = told
        xid = re.search(
            r"Xid\s*(?:\((?:PCI:)?([0-9A-Fa-f:.]+)\):\s*(\d+)|(\d+)\s*\((?:PCI:)?([0-9A-Fa-f:.]+)\))[:,]?\s*(.*)", line
        )
        if xid:
            bus = xid.group(1) or xid.group(4)
            code = xid.group(2) or xid.group(3)
            into.events.append(
                FoundEvent(
                    code=f"xid-{code}",
                    device=bus,
                    severity="fatal" if code in ("48", "79", "95") else "warning",
                    text=line.strip(),
                )
            )
    if not found:
        return False
    device = into.device(into.free_index())
    device.vendor, device.bus = "nvidia", bus
    device.details |= found
    _judge(device)
    into.half("loose values of one GPU, not a whole readout")
    return True
