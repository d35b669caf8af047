"""This machine: every tool that is installed is asked at once, and the kernel for what tools do not tell.

A missing driver, a tool that hangs, a model that nobody knows are told among the problems; nothing of it is fatal.
"""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import msgspec

from agents.devices import host, sysfs, tool
from agents.devices.captures import read_capture
from muster.inspection import FoundDevice, Inspection

TIMEOUT: Final = 10.0


class Question(NamedTuple):
    """`instead` questions are asked only when the first had no answer."""

    vendor: str
    kind: str
    command: tuple[str, ...]
    instead: tuple[tuple[str, ...], ...] = ()


QUESTIONS: Final = (
    Question("nvidia", "nvidia_q", ("nvidia-smi", "-q", "-x"), (("nvidia-smi",),)),
    Question("nvidia", "nvidia_topo", ("nvidia-smi", "topo", "-m")),
    Question("amd", "rocm", ("rocm-smi", "-a", "--json"), (("amd-smi", "static", "--json"),)),
    Question("amd", "rocm", ("rocm-smi", "--showtopo"), (("amd-smi", "topology"),)),
    Question("ascend", "ascend_npu_smi", ("npu-smi", "info")),
    Question("ascend", "ascend_topo", ("npu-smi", "info", "-t", "topo")),
    Question("cambricon", "cambricon", ("cnmon",)),
    Question("gaudi", "gaudi", ("hl-smi",)),
    Question("hygon", "hygon", ("hy-smi",)),
    Question("metax", "metax", ("mx-smi",)),
    Question("mthreads", "mthreads", ("mthreads-gmi",)),
)


def inspect(timeout: float = TIMEOUT, questions: Sequence[Question] = QUESTIONS) -> Inspection:
    """Takes as long as the slowest tool, and at most about `timeout` seconds for each that hangs."""
    found = Inspection()
    found.node.details |= {
        "cores": host.cpu_milli() // 1000,
        "memory_mib": host.memory() >> 20,
        "kernel": os.uname().release,
    }
    with ThreadPoolExecutor(max_workers=len(questions) + 1) as pool:
        library = pool.submit(_library, timeout)
        answers = [pool.submit(_ask, question, timeout) for question in questions]
        by_library = library.result()
        told = [answer.result() for answer in answers]
    parts: dict[str, list[Inspection]] = {}
    for question, answer in zip(questions, told, strict=True):
        if answer is not None:
            parts.setdefault(question.vendor, []).append(answer)
    if by_library is not None:
        parts.setdefault("nvidia", []).append(by_library)
    for vendor, inspections in parts.items():
        _join(vendor, inspections, found)
    found.nics = sysfs.nics() or found.nics
    _place(found)
    return found


def _ask(question: Question, timeout: float) -> Inspection | None:
    problems: list[str] = []
    for command in (question.command, *question.instead):
        answer = tool.ask(command, timeout)
        if answer is None:
            continue
        if answer.problem:
            problems.append(answer.problem)
        if answer.output.strip() and not answer.problem:
            return read_capture(question.kind, answer.output)
    if not problems:
        return None
    failed = Inspection()
    for problem in problems:
        failed.half(problem)
    return failed


def _library(timeout: float) -> Inspection | None:
    """NVML in a process of its own; None where there is no driver to ask."""
    if not os.path.exists("/dev/nvidiactl"):
        return None
    answer = tool.ask((sys.executable, "-m", "agents.devices.nvml"), timeout)
    if answer is None or answer.problem:
        failed = Inspection()
        failed.half(answer.problem if answer and answer.problem else "NVML: no interpreter")
        return failed
    try:
        return msgspec.json.decode(answer.output, type=Inspection)
    except msgspec.DecodeError:
        return None


def _join(vendor: str, parts: list[Inspection], found: Inspection) -> None:
    """Several answers about one vendor's devices are one list; indices of a second vendor go on after the first's."""
    first = found.free_index()
    devices: dict[int, FoundDevice] = {}
    for part in parts:
        found.complete &= part.complete
        for problem in part.problems:
            found.note(problem)
        for device in part.devices:
            known = devices.setdefault(device.index, FoundDevice(index=first + device.index, vendor=vendor))
            _merge(known, device)
        if part.groups and vendor not in found.node.details:
            found.groups += [[first + index for index in group] for group in part.groups]
        for nic in part.nics:
            if nic.name not in [other.name for other in found.nics]:
                found.nics.append(nic)
    found.devices += [devices[index] for index in sorted(devices)]
    for number, group in enumerate(found.groups):
        for device in found.devices:
            device.group = number if device.index in group else device.group


def _merge(known: FoundDevice, more: FoundDevice) -> None:
    for name in ("model", "memory_mib", "numa", "cpus", "bus"):
        if getattr(known, name) is None:
            setattr(known, name, getattr(more, name))
    known.nearest_nics = known.nearest_nics or more.nearest_nics
    known.healthy = False if False in (known.healthy, more.healthy) else known.healthy or more.healthy
    known.problems += [problem for problem in more.problems if problem not in known.problems]
    known.details |= {key: value for key, value in more.details.items() if known.details.get(key) is None}


def _place(found: Inspection) -> None:
    """NUMA node and cores from the kernel; what sits on PCIe and no tool tells of is a missing driver."""
    on_bus = {sysfs.pci_key(bus): facts for bus, facts in sysfs.accelerators().items()}
    for device in found.devices:
        facts = on_bus.pop(sysfs.pci_key(device.bus), None) if device.bus else None
        if facts is not None:
            device.numa = facts[1] if device.numa is None else device.numa
            device.cpus = device.cpus or facts[2]
    told = {device.vendor for device in found.devices if device.bus is None}
    silent: dict[str, list[str]] = {}
    for bus, (vendor, _, _) in on_bus.items():
        if vendor not in told:
            silent.setdefault(vendor, []).append(bus)
    for vendor, buses in silent.items():
        found.half(f"{vendor}: on PCIe and told by no tool (driver missing, or device lost): {', '.join(buses)}")
