"""Devices are given back when nobody uses them any more: the end of a worker is told only then.

A process that was there before the worker began (a daemon of the site, a monitor) is not the worker's. What still holds
a device when patience is over is told, and the node's health check for leftovers takes the device out of use.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from agents.devices.vendors import BY_NAME
from agents.runtime.isolation import NVIDIA, minor_of
from agents.runtime.threads import in_thread
from agents.shims.processes import start_time
from muster.protocol import Device

PATIENCE: Final = 20.0
LOOK: Final = 0.5
"""Seconds between looks."""
SLOW: Final = 10.0
"""Seconds after which a look at /proc is given up."""


def held(
    devices: Sequence[Device], since: int, proc: Path = Path("/proc"), nvidia: Path = NVIDIA
) -> dict[int, list[int]]:
    """Device index to the pids that have it open and began after `since` (clock ticks after boot)."""
    files = {path: one.index for one in devices if (path := file_of(one, nvidia)) is not None}
    found: dict[int, list[int]] = {}
    for folder in proc.iterdir() if files else ():
        if not folder.name.isdigit():
            continue
        pid = int(folder.name)
        for index in {files[path] for path in _open(folder) if path in files}:
            if (began := start_time(pid)) is not None and began >= since:
                found.setdefault(index, []).append(pid)
    return {index: sorted(pids) for index, pids in found.items()}


def file_of(device: Device, nvidia: Path = NVIDIA) -> str | None:
    """None where nobody says for certain which file is this device's, and for virtual ones."""
    if device.virtual:
        return None
    if device.vendor == "nvidia":
        minor = minor_of(device.bus, nvidia) if device.bus else None
        return None if minor is None else f"/dev/nvidia{minor}"
    vendor = BY_NAME.get(device.vendor)
    return vendor.node.replace(r"(\d+)", str(device.index)).replace("\\", "") if vendor and vendor.node else None


def _open(folder: Path) -> set[str]:
    found = set()
    with suppress(OSError):
        for name in os.listdir(folder / "fd"):
            with suppress(OSError):
                found.add(os.readlink(folder / "fd" / name))
    return found


async def until_free(look: Callable[[], dict[int, list[int]]], patience: float = PATIENCE, pause: float = LOOK) -> str:
    """Empty when they are free; else who holds what."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience
    while True:
        try:
            still = await in_thread(look, SLOW)
        except (TimeoutError, OSError) as error:
            return f"whether its devices are free cannot be told: {error or 'no answer'}"
        if not still:
            return ""
        if loop.time() >= deadline:
            break
        await asyncio.sleep(pause)
    who = "; ".join(f"device {index} by pid {', '.join(map(str, pids))}" for index, pids in sorted(still.items()))
    return f"still held after {patience:g} s: {who}"
