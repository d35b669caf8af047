"""AMD without any tool: what the amdgpu driver shows below /sys/class/drm and /sys/class/kfd."""

import re
from pathlib import Path
from typing import Any, Final

from agents.devices.sysfs import number, text
from muster.inspection import FoundDevice, Inspection

XGMI: Final = 11
"""Type of a KFD io_link (kfd_crat.h, CRAT_IOLINK_TYPE_XGMI)."""


def read_kernel(sys: Path) -> Inspection:
    """Every card that amdgpu drives, by its PCI address; hives by their XGMI links."""
    found = Inspection()
    nodes = _kfd(sys / "class/kfd/kfd/topology/nodes")
    for card in _cards(sys):
        _card(card, nodes, found)
    _hives(nodes, found)
    return found


def _cards(sys: Path) -> list[Path]:
    """Their PCI devices, by address."""
    root = sys / "class/drm"
    found: dict[str, Path] = {}
    for entry in root.iterdir() if root.is_dir() else ():
        device = entry / "device"
        is_card = re.fullmatch(r"card\d+", entry.name) and text(device / "vendor") == "0x1002"
        if is_card and text(device / "mem_info_vram_total") is not None:
            found[device.resolve().name] = device
    return [found[address] for address in sorted(found)]


def _kfd(root: Path) -> dict[int, dict[str, Any]]:
    """Node number -> its properties and the nodes it is linked to by XGMI; CPUs are left out."""
    nodes: dict[int, dict[str, Any]] = {}
    for folder in root.iterdir() if root.is_dir() else ():
        facts: dict[str, Any] = dict(_properties(folder / "properties"))
        if not folder.name.isdigit() or not facts.get("simd_count"):
            continue
        links = (folder / "io_links").iterdir() if (folder / "io_links").is_dir() else ()
        facts["xgmi"] = sorted(
            link["node_to"] for link in map(_properties, (one / "properties" for one in links))
            if link.get("type") == XGMI and "node_to" in link
        )  # fmt: skip
        facts["name"] = text(folder / "name")
        nodes[int(folder.name)] = facts
    return nodes


def _properties(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in (text(path) or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _card(card: Path, nodes: dict[int, dict[str, Any]], found: Inspection) -> None:
    address = card.resolve().name
    device = FoundDevice(index=found.free_index(), vendor="amd", bus=address)
    found.devices.append(device)
    total, used = number(card / "mem_info_vram_total"), number(card / "mem_info_vram_used")
    device.model = text(card / "product_name") or None
    device.memory_mib = total >> 20 if total else None
    numa = number(card / "numa_node")
    device.numa = numa if numa is not None and numa >= 0 else None
    device.cpus = text(card / "local_cpulist") or None
    node = next((n for n, facts in nodes.items() if _location(facts) == _of(address)), None)
    unique = text(card / "unique_id")
    device.details |= {
        "uuid": f"GPU-{unique}" if unique else None,
        "serial": text(card / "serial_number") or None,
        "vbios": text(card / "vbios_version") or None,
        "used_mib": used >> 20 if used is not None else None,
        "node_id": node,
        "gfx": nodes[node]["name"] if node is not None else None,
        "pcie": {"width": number(card / "current_link_width"), "width_max": number(card / "max_link_width")},
        "pcie_replays": number(card / "pcie_replay_count"),
        "ecc_uncorr": _ras(card, "ue"),
        "ecc_corr": _ras(card, "ce"),
    }
    device.healthy = True
    if device.details["ecc_uncorr"]:
        device.healthy = False
        device.problems.append(f"{device.details['ecc_uncorr']} uncorrected errors since the driver was loaded")


def _ras(card: Path, kind: str) -> int | None:
    """The sum over all blocks: each `ras/BLOCK_err_count` has a line `ue: N` and one `ce: N`."""
    counts = [
        int(match.group(1))
        for path in sorted((card / "ras").glob("*_err_count"))
        if (match := re.search(rf"^{kind}\s*:\s*(\d+)", text(path) or "", re.MULTILINE))
    ]
    return sum(counts) if counts else None


def _of(address: str) -> tuple[int, int]:
    """Domain, and bus/device/function as the KFD's `location_id` has them."""
    domain, bus, rest = address.split(":")
    slot, _, function = rest.partition(".")
    return int(domain, 16), int(bus, 16) << 8 | int(slot, 16) << 3 | int(function, 16)


def _location(facts: dict[str, Any]) -> tuple[int, int]:
    return facts.get("domain", 0), facts.get("location_id", -1)


def _hives(nodes: dict[int, dict[str, Any]], found: Inspection) -> None:
    by_node = {device.details["node_id"]: device for device in found.devices if device.details["node_id"] is not None}
    seen: set[int] = set()
    for node in sorted(by_node):
        group, todo = set[int](), [node]
        while todo:
            at = todo.pop()
            if at in by_node and at not in group:
                group.add(at)
                todo += nodes[at]["xgmi"]
        if len(group) > 1 and not group & seen:
            members = sorted(by_node[one].index for one in group)
            for index in members:
                found.device(index).group = len(found.groups)
            found.groups.append(members)
        seen |= group
