"""Which files of devices a worker is kept from: those of the node's devices that were not given to it."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from muster.protocol import Device

NVIDIA: Final = Path("/proc/driver/nvidia/gpus")
_MINOR: Final = re.compile(r"Device Minor:\s*(\d+)")


def denied(devices: Sequence[Device], mine: Collection[int], nvidia: Path = NVIDIA) -> tuple[str, ...]:
    """Only where the kernel itself says which file is which device's: NVIDIA's driver does, by the PCI address. Other
    vendors' devices are kept apart by their visible-devices variable alone."""
    found = []
    for device in devices:
        if device.index in mine or device.virtual or device.vendor != "nvidia" or not device.bus:
            continue
        minor = minor_of(device.bus, nvidia)
        if minor is not None:
            found.append(f"/dev/nvidia{minor}")
    return tuple(found)


def minor_of(bus: str, nvidia: Path) -> int | None:
    """NVML writes the PCI domain with eight digits, the kernel with four."""
    domain, _, rest = bus.lower().partition(":")
    try:
        text = (nvidia / f"{domain[-4:]}:{rest}" / "information").read_text()
    except OSError:
        return None
    match = _MINOR.search(text)
    return int(match[1]) if match else None
