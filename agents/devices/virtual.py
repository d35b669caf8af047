"""Virtual devices: what a laptop or a test says that it has, e.g. `h100:8` or `h100:4,a100:4`."""

from muster.accelerators import accelerator
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
                virtual=True,
            )
            for i in range(int(count))
        ]
    return tuple(devices)
