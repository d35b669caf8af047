"""Resets devices in a process of its own: `main(REQUEST.json)` prints `ok`, or why not."""

import sys
from pathlib import Path
from typing import Final

import msgspec

from agents.devices import tool
from agents.devices.known import Known
from agents.devices.vendors import BY_NAME

TIMEOUT: Final = 120.0


def main(path: str) -> None:
    devices = msgspec.json.decode(Path(path).read_bytes(), type=tuple[Known, ...])
    sys.stdout.write(reset(devices) or "ok")


def reset(devices: tuple[Known, ...], timeout: float = TIMEOUT) -> str:
    """One after the other; empty when all are done, else the first that did not work."""
    for device in devices:
        vendor = BY_NAME.get(device.vendor)
        command = vendor.reset_command(device) if vendor is not None else None
        if command is None:
            return f"device {device.index}: there is no reset for {device.vendor or 'an unknown vendor'}"
        answer = tool.ask(command, timeout)
        if answer is None:
            return f"device {device.index}: {command[0]} is not installed"
        if answer.problem or answer.status:
            last = answer.output.decode(errors="replace").strip().splitlines()[-1:] or [""]
            return f"device {device.index}: {answer.problem or last[0]}"[:300]
    return ""
