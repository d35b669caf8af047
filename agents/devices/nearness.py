"""Which NIC is nearest to which device: by the bridges that both hang below, else by their NUMA node; and rails."""

from pathlib import Path

from agents.devices.sysfs import pci_key
from muster.inspection import FoundDevice, FoundNic, Inspection


def place(found: Inspection, sys: Path) -> None:
    """Fills `nearest_nics` where no tool has told it, and rails: the physical NICs that are nearest to some device, in
    the order of their addresses."""
    root = sys / "bus/pci/devices"
    nics = [nic for nic in found.nics if nic.details.get("bus") and not nic.details.get("virtual_function")]
    ways = {nic.name: _way(root, nic.details["bus"]) for nic in nics}
    for device in found.devices:
        if not device.nearest_nics and device.bus:
            device.nearest_nics = _nearest(device, _way(root, pci_key(device.bus)), nics, ways)
    near = {name for device in found.devices for name in device.nearest_nics}
    rails = sorted((nic for nic in nics if nic.name in near), key=lambda nic: (nic.details["bus"], nic.name))
    for number, nic in enumerate(rails):
        nic.rail = number if nic.rail is None else nic.rail


def _nearest(
    device: FoundDevice, way: tuple[str, ...], nics: list[FoundNic], ways: dict[str, tuple[str, ...]]
) -> list[str]:
    shared = {nic.name: _shared(way, ways[nic.name]) for nic in nics}
    most = max(shared.values(), default=0)
    if most > 1:  # below one root port or switch: more than the root complex
        return [name for name, depth in shared.items() if depth == most]
    same = [nic.name for nic in nics if device.numa is not None and nic.numa == device.numa]
    return same or [name for name, depth in shared.items() if depth == most and most]


def _way(root: Path, address: str) -> tuple[str, ...]:
    """From the root complex to the device: pci0000:3a, 0000:3a:01.0, ... ; empty when the kernel does not show it."""
    path = root / address
    if not path.exists():
        return ()
    parts = path.resolve().parts
    start = next((i for i, part in enumerate(parts) if part.startswith("pci") and ":" in part), None)
    return parts[start:] if start is not None else ()


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    depth = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        depth += 1
    return depth
