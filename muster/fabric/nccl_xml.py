"""Topology files as NCCL reads and dumps them: which GPU and NIC sit below which switch of which processor."""

import re
import xml.etree.ElementTree as ET
from typing import Final

from muster.inspection import FoundDevice, FoundNic, Inspection

_VENDORS: Final = {"0x10de": "nvidia", "0x1002": "amd"}


def read(text: str, into: Inspection) -> bool:
    """False when this is no such file."""
    if "<system" not in text or "<pci" not in text:
        return False
    if "<!ENTITY" in text:
        into.half("the XML declares entities: not read")
        return True
    try:
        system = ET.fromstring(text[text.index("<system") :].strip())
    except ET.ParseError as error:
        into.half(f"the XML ends or breaks in the middle: {error}")
        return True
    cpus = [element for element in system if element.tag == "cpu"]
    for cpu in cpus:
        numa = cpu.get("numaid", "")
        cores = _cores(cpu.get("affinity", ""))
        for child in cpu:
            if child.tag == "pci":
                _walk(child, [], int(numa) if numa.lstrip("-").isdigit() else None, cores, into)
    nets = [net.get("name") for cpu in cpus for nic in cpu.findall("nic") for net in nic.findall("net")]
    into.node.details |= {"cpus": len(cpus), "gpus": len(into.devices), "nics": len(into.nics), "network": nets}
    _near(into)
    _links(system, into)
    return True


def _walk(pci: ET.Element, path: list[str], numa: int | None, cores: str | None, into: Inspection) -> None:
    kind, bus = pci.get("class", ""), pci.get("busid", "")
    if kind.startswith(("0x0300", "0x0302")):
        gpu = pci.find("gpu")
        said = gpu.get("dev", "") if gpu is not None else ""
        taken = {device.index for device in into.devices}
        index = int(said) if said.isdigit() and int(said) not in taken else into.free_index()
        vendor = _VENDORS.get(pci.get("vendor", "").lower())
        device = FoundDevice(index=index, vendor=vendor, bus=bus, numa=numa, cpus=cores)
        device.details = {"path": path, "link_speed": pci.get("link_speed") or None}
        into.devices.append(device)
    elif kind.startswith(("0x0207", "0x0200")):
        net = pci.find(".//net")
        name = net.get("name", bus) if net is not None else bus
        layer = "InfiniBand" if kind.startswith("0x0207") else "Ethernet"
        into.nics.append(FoundNic(name=name, link_layer=layer, numa=numa, details={"bus": bus, "path": path}))
    for child in pci.findall("pci"):
        _walk(child, [*path, bus], numa, cores, into)


def _near(into: Inspection) -> None:
    """The NICs that share the deepest switch with the device."""
    for device in into.devices:
        common = {nic.name: _shared(device.details["path"], nic.details["path"]) for nic in into.nics}
        best = max(common.values(), default=0)
        device.nearest_nics = [name for name, depth in common.items() if depth == best and best > 0]


def _shared(one: list[str], other: list[str]) -> int:
    depth = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        depth += 1
    return depth


def _links(system: ET.Element, into: Inspection) -> None:
    at = {device.bus: device for device in into.devices}
    for pci in system.iter("pci"):
        device = at.get(pci.get("busid"))
        for link in pci.findall("gpu/nvlink") if device is not None else ():
            target, count = link.get("target"), link.get("count", "")
            if device is None:
                continue
            device.details.setdefault("nvlinks", {})[target] = int(count) if count.isdigit() else None
            if target == device.bus:
                device.details["nvlink_self_target"] = into.node.details["nvlink_self_target"] = True
            elif target in at:
                _join(device.index, at[target].index, into)
    for number, group in enumerate(into.groups):
        group.sort()
        for index in group:
            into.device(index).group = number


def _join(one: int, other: int, into: Inspection) -> None:
    touched = [group for group in into.groups if one in group or other in group]
    merged = sorted({one, other}.union(*touched)) if touched else sorted({one, other})
    into.groups = [group for group in into.groups if group not in touched] + [merged]


def _cores(mask: str) -> str | None:
    """ "00000000,0000ffff" is "0-15"."""
    if not re.fullmatch(r"[0-9a-fA-F,]{1,600}", mask):
        return None
    bits = int(mask.replace(",", ""), 16)
    spans: list[str] = []
    at = 0
    while bits >> at:
        if not bits >> at & 1:
            at += 1
            continue
        start = at
        while bits >> at & 1:
            at += 1
        spans.append(str(start) if at - start == 1 else f"{start}-{at - 1}")
    return ",".join(spans) or None
