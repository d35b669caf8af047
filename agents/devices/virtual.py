"""Virtual devices: what a laptop or a test says that it has, e.g. `h100:8` or `h100:4,a100:4`.

They may be broken on purpose (muster/faults.py).
"""

from typing import Any

from muster.accelerators import accelerator
from muster.faults import Faults, virtual_bus
from muster.inspection import FoundDevice, FoundNic, Inspection
from muster.protocol import Device


def virtual_devices(text: str) -> tuple[Device, ...]:
    """Devices numbered from 0; the interconnect domain is the catalogue's. Raises ValueError."""
    devices: list[Device] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, count = part.partition(":")
        if not count.isdigit() or not 1 <= int(count) <= 1024:
            raise ValueError(f"MUSTER_VIRTUAL_DEVICES: expected TYPE:COUNT such as h100:8, found {part!r}")
        try:
            kind = accelerator(name)
        except KeyError as error:
            raise ValueError(f"MUSTER_VIRTUAL_DEVICES: {error.args[0]}") from None
        first = len(devices)
        devices += [
            Device(
                index=first + i,
                type=kind.name,
                vendor=kind.vendor,
                model=kind.title,
                memory_mib=kind.memory_gib * 1024,
                group=(first + i) // max(1, kind.domain_size) if kind.domain_size > 1 else None,
                bus=virtual_bus(first + i),
                virtual=True,
            )
            for i in range(int(count))
        ]
    return tuple(devices)


def look(devices: tuple[Device, ...], broken: Faults, looks: int) -> Inspection:
    """What a tool would tell of them. `looks` counts the looks: a port is up at the first, and one that flaps is down at
    every other one."""
    found = Inspection()
    for device in devices:
        kinds = broken.devices.get(str(device.index), [])
        if "missing" not in kinds:
            found.devices.append(_seen(device, kinds))
    for name, kind in broken.ports.items():
        down = looks >= 1 and (kind == "port-down" or looks % 2 == 1)
        state = "down" if down else "active"
        found.nics.append(FoundNic(name=name, link_layer="InfiniBand", state=state, rate_gbps=400.0))
    return found


def _seen(device: Device, kinds: list[str]) -> FoundDevice:
    details: dict[str, Any] = {
        "ecc_uncorr": 3 if "ecc" in kinds else 0,
        "remap": {"pending": "remap-pending" in kinds, "failure": "remap-failed" in kinds},
        "throttle_active": ["hw_thermal_slowdown"] if "throttled" in kinds else [],
        "recovery_action": "GPU Reset" if "recovery" in kinds else None,
        "used_mib": 4096 if "leftover" in kinds else 0,
    }
    if "link-down" in kinds:
        details |= {"links": {"0": None}, "link_count": 18, "inactive_links": 1}
    return FoundDevice(
        index=device.index,
        vendor=device.vendor,
        model=device.model,
        memory_mib=device.memory_mib,
        bus=device.bus,
        group=device.group,
        healthy=True,
        details=details,
    )
