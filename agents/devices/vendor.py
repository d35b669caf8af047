"""One interface for all vendors: what devices there are with links, counters and health; who uses them; how one is reset."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from agents.devices.known import Known
from muster.inspection import FoundDevice, Inspection


class Question(NamedTuple):
    """A tool's command, and the kind of its output (agents/devices/captures.py). `instead` questions are asked only when
    the first had no answer."""

    kind: str
    command: tuple[str, ...]
    instead: tuple[tuple[str, ...], ...] = ()


class Vendor(NamedTuple):
    """`questions` are asked at once; `more` makes further ones from what they found (each device's port, say), whose
    answers are read together with the question before each. `library` is a module that prints an inspection, asked
    when `driver` (a path) is there; when it answers, the questions in `spared` are not asked. `kernel` reads what the
    kernel itself shows below /sys. `node` is the pattern of the device's file, `(\\d+)` its number: who has it open uses
    the device. `reset` is the command to which the device's name is added: by `reset_by` its uuid, its index, or its card
    and chip."""

    name: str
    questions: tuple[Question, ...] = ()
    more: Callable[[Inspection], tuple[Question, ...]] | None = None
    library: str = ""
    driver: str = ""
    spared: tuple[str, ...] = ()
    kernel: Callable[[Path], Inspection] | None = None
    node: str = ""
    reset: tuple[str, ...] = ()
    reset_by: str = "index"

    def reset_command(self, device: Known) -> tuple[str, ...] | None:
        """None where there is no reset that is safe to call."""
        if not self.reset:
            return None
        if self.reset_by == "card":
            card = device.index if device.card is None else device.card
            return (*self.reset, "-i", str(card), "-c", str(device.chip or 0))
        name = device.uuid or device.bus if self.reset_by == "uuid" else str(device.index)
        return (*self.reset, name or str(device.index))


def holders(vendor: Vendor, devices: Sequence[FoundDevice], proc: Path = Path("/proc")) -> dict[int, list[int]]:
    """Device index to the pids that have its file open, as far as this process may look."""
    found: dict[int, set[int]] = {device.index: set() for device in devices}
    pattern = re.compile(vendor.node)
    for folder in proc.iterdir() if vendor.node and proc.is_dir() else ():
        if folder.name.isdigit():
            for number in _open(folder, pattern):
                found.setdefault(number, set()).add(int(folder.name))
    return {index: sorted(pids) for index, pids in found.items()}


def _open(folder: Path, pattern: re.Pattern[str]) -> set[int]:
    numbers = set()
    try:
        for entry in (folder / "fd").iterdir():
            try:
                found = pattern.fullmatch(str(entry.readlink()))
            except OSError:
                continue
            if found:
                numbers.add(int(found.group(1)))
    except OSError:
        pass
    return numbers
