"""Resets devices in a process of its own: `main(REQUEST.json)` prints `ok`, or why not."""

import sys
from pathlib import Path
from typing import Final

import msgspec

from agents.devices import tool
from agents.devices.known import Known

TIMEOUT: Final = 120.0
COMMANDS: Final = {
    "nvidia": ("nvidia-smi", "--gpu-reset", "-i"),
    "amd": ("amd-smi", "reset", "--gpureset", "--gpu"),
    "ascend": ("npu-smi", "set", "-t", "reset", "-c", "0", "-m", "1", "-i"),
    "hygon": ("hy-smi", "--gpureset", "-d"),
}
"""By vendor, the device's name follows: its UUID or address for NVIDIA, its number for the others. The other vendors
have no reset that is safe to call."""


def main(path: str) -> None:
    devices = msgspec.json.decode(Path(path).read_bytes(), type=tuple[Known, ...])
    sys.stdout.write(reset(devices) or "ok")


def reset(devices: tuple[Known, ...], timeout: float = TIMEOUT) -> str:
    """One after the other; empty when all are done, else the first that did not work."""
    for device in devices:
        command = COMMANDS.get(device.vendor)
        if command is None:
            return f"device {device.index}: there is no reset for {device.vendor or 'an unknown vendor'}"
        name = (device.uuid or device.bus or str(device.index)) if device.vendor == "nvidia" else str(device.index)
        answer = tool.ask((*command, name), timeout)
        if answer is None:
            return f"device {device.index}: {command[0]} is not installed"
        if answer.problem or answer.status:
            last = answer.output.decode(errors="replace").strip().splitlines()[-1:] or [""]
            return f"device {device.index}: {answer.problem or last[0]}"[:300]
    return ""
