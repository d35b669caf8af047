"""Faults of virtual devices: how they are put on and taken off, by files in the folder of the node's agent.

`virtual/faults.json` is what a driver would tell of the devices, lines of `virtual/kmsg` are what the kernel would say.
"""

import os
import time
from pathlib import Path
from typing import Final

import msgspec

FAULTS: Final = "virtual/faults.json"
KERNEL_LOG: Final = "virtual/kmsg"
DEVICE_KINDS: Final = (
    "missing", "ecc", "remap-pending", "remap-failed", "link-down", "throttled", "recovery", "leftover",
)  # fmt: skip
PORT_KINDS: Final = ("port-down", "port-flapping")


class Faults(msgspec.Struct, kw_only=True):
    """`devices`: index -> kinds of DEVICE_KINDS; `ports`: name of a port -> kind of PORT_KINDS."""

    devices: dict[str, list[str]] = {}
    ports: dict[str, str] = {}


def virtual_bus(index: int) -> str:
    """The PCI address of a virtual device; its domain is one that no machine has."""
    return f"{0xFA00 + index // 32:04x}:{index % 32 + 1:02x}:00.0"


def read(folder: Path) -> Faults:
    """Of the node whose agent has this folder. Damaged or absent: none."""
    try:
        return msgspec.json.decode((folder / FAULTS).read_bytes(), type=Faults)
    except (OSError, ValueError):
        return Faults()


def write(folder: Path, faults: Faults) -> None:
    """In one step. Raises OSError."""
    path = folder / FAULTS
    path.parent.mkdir(mode=0o700, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_bytes(msgspec.json.encode(faults))
    os.replace(new, path)


def say(folder: Path, text: str) -> None:
    """One line of the kernel, now. Raises OSError."""
    path = folder / KERNEL_LOG
    path.parent.mkdir(mode=0o700, exist_ok=True)
    since = int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)
    with path.open("a") as file:
        file.write(f"3,{since},{since},-;{' '.join(text.split())}\n")


def mend(folder: Path, devices: tuple[int, ...] | None = None) -> None:
    """Take the faults of these devices away; None: all that the node has. Raises OSError."""
    faults = read(folder)
    if devices is None:
        faults = Faults()
    else:
        faults.devices = {index: kinds for index, kinds in faults.devices.items() if int(index) not in devices}
    if (folder / FAULTS).exists():
        write(folder, faults)
