"""This machine: every tool that is installed is asked at once, and the kernel for what tools do not tell.

A missing driver, a tool that hangs, a model that nobody knows are told among the problems; nothing of it is fatal.
"""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

import agents
from agents.devices import host, nearness, sysfs, tool
from agents.devices.captures import read_capture
from agents.devices.vendor import Question, Vendor, holders
from agents.devices.vendors import VENDORS
from muster.inspection import FoundDevice, Inspection

TIMEOUT: Final = 10.0


def inspect(
    timeout: float = TIMEOUT, vendors: Sequence[Vendor] = VENDORS, sys_: Path = sysfs.SYS, root: Path = Path("/")
) -> Inspection:
    """Takes as long as the slowest tool, and at most about `timeout` seconds for each that hangs. `sys_` and `root` are
    other folders in tests."""
    found = Inspection()
    found.node.details |= {
        "cores": host.cpu_milli() // 1000,
        "memory_mib": host.memory() >> 20,
        "kernel": os.uname().release,
    }
    with ThreadPoolExecutor(max_workers=16) as tools, ThreadPoolExecutor(max_workers=len(vendors) + 1) as pool:
        answers = [pool.submit(_ask_all, vendor, timeout, sys_, root, tools) for vendor in vendors]
        told = [answer.result() for answer in answers]
    for vendor, parts in zip(vendors, told, strict=True):
        if parts:
            _join(vendor.name, parts, found)
    ports = sysfs.nics(sys_)
    known = {nic.name for nic in ports}
    found.nics = ports + [nic for nic in found.nics if nic.name not in known]
    _use(found, vendors, root / "proc")
    _place(found, sys_)
    nearness.place(found, sys_)
    return found


def _ask_all(vendor: Vendor, timeout: float, sys_: Path, root: Path, tools: ThreadPoolExecutor) -> list[Inspection]:
    """What the kernel, the library and the tools tell of one vendor's devices."""
    parts: list[Inspection] = []
    if vendor.kernel is not None and (shown := vendor.kernel(sys_)).devices:
        parts.append(shown)
    library = _library(vendor, timeout, root)
    if library is not None:
        parts.append(library)
    spared = vendor.spared if library is not None and library.devices else ()
    asked = [tools.submit(_ask, one, timeout) for one in vendor.questions if one.kind not in spared]
    parts += [answer for one in asked if (answer := one.result()) is not None]
    seen = max(parts, key=lambda part: len(part.devices), default=None)
    if vendor.more is not None and seen is not None and seen.devices:
        parts += _ask_more(vendor.more(seen), timeout, tools)
    return parts


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


def _ask_more(questions: Sequence[Question], timeout: float, tools: ThreadPoolExecutor) -> list[Inspection]:
    """The answers of one kind are read as one text, each behind its question, as people record them."""
    answers = list(tools.map(lambda one: tool.ask(one.command, timeout), questions))
    texts: dict[str, bytes] = {}
    failed = Inspection()
    for question, answer in zip(questions, answers, strict=True):
        if answer is None:
            continue
        if answer.problem:
            failed.half(answer.problem)
        elif not answer.status:
            name = " ".join((os.path.basename(question.command[0]), *question.command[1:]))
            texts[question.kind] = texts.get(question.kind, b"") + name.encode() + b"\n" + answer.output + b"\n"
    parts = [read_capture(kind, text) for kind, text in texts.items()]
    for part in parts:
        part.groups = []  # planes of the network, not links between devices
        for device in part.devices:
            device.group = None
    return [*parts, failed] if failed.problems else parts


def _library(vendor: Vendor, timeout: float, root: Path) -> Inspection | None:
    """By a library in a process of its own; None where there is no driver to ask, or no library."""
    if not vendor.library or not (root / vendor.driver.lstrip("/")).exists():
        return None
    code = f"import sys; sys.path.insert(0, {str(Path(agents.__file__ or '.').parent.parent)!r}); "
    code += f"from {vendor.library} import main; sys.exit(main())"
    answer = tool.ask((sys.executable, "-c", code), timeout)
    if answer is None or answer.status == 3:
        return None  # no library, or one that does not fit: the tools are asked instead
    try:
        if answer.problem is None:
            return msgspec.json.decode(answer.output, type=Inspection)
        problem = answer.problem.replace(code, vendor.library)
    except msgspec.DecodeError:
        problem = f"{vendor.library}: an answer that is not understood"
    failed = Inspection()
    failed.half(problem)
    return failed


def _join(vendor: str, parts: list[Inspection], found: Inspection) -> None:
    """Several answers about one vendor's devices are one list, matched by address where both tell it, else by number.
    Indices of a second vendor go on after the first's."""
    first = found.free_index()
    devices: dict[int, FoundDevice] = {}
    for part in parts:
        found.complete &= part.complete
        for problem in part.problems:
            found.note(problem)
        numbers = {device.index: _number(device, devices) for device in part.devices}
        for device in part.devices:
            index = numbers[device.index]
            known = devices.setdefault(index, FoundDevice(index=first + index, vendor=vendor))
            _merge(known, device)
        for group in part.groups:
            members = sorted(first + numbers.get(index, index) for index in group)
            if not any(set(members) & set(other) for other in found.groups):
                found.groups.append(members)
        for nic in part.nics:
            if nic.name not in [other.name for other in found.nics]:
                found.nics.append(nic)
        found.node.details |= {
            f"{vendor}_{name}": value
            for name, value in part.node.details.items()
            if name in ("driver", "cuda", "tool", "attached_gpus", "planes") and value is not None
        }
    found.devices += [devices[index] for index in sorted(devices)]
    for number, group in enumerate(found.groups):
        for device in found.devices:
            device.group = number if device.index in group else device.group


def _number(device: FoundDevice, devices: dict[int, FoundDevice]) -> int:
    """Tools of one vendor may count differently; an address is an address."""
    if device.bus:
        for index, known in devices.items():
            if known.bus and sysfs.pci_key(known.bus) == sysfs.pci_key(device.bus):
                return index
        there = devices.get(device.index)
        if there is not None and there.bus:
            return max(devices) + 1
    return device.index


def _merge(known: FoundDevice, more: FoundDevice) -> None:
    for name in ("model", "memory_mib", "numa", "cpus", "bus"):
        if getattr(known, name) is None:
            setattr(known, name, getattr(more, name))
    known.nearest_nics = known.nearest_nics or more.nearest_nics
    known.healthy = False if False in (known.healthy, more.healthy) else known.healthy or more.healthy
    known.problems += [problem for problem in more.problems if problem not in known.problems]
    known.details |= {key: value for key, value in more.details.items() if known.details.get(key) is None}


def _use(found: Inspection, vendors: Sequence[Vendor], proc: Path) -> None:
    """Who has a device's file open, where its tool does not tell who uses it."""
    for vendor in vendors:
        mute = [one for one in found.devices if one.vendor == vendor.name and "processes" not in one.details]
        if mute and vendor.node:
            using = holders(vendor, mute, proc)
            for device in mute:
                device.details["processes"] = [{"pid": pid} for pid in using.get(device.index, ())]


def _place(found: Inspection, sys_: Path) -> None:
    """NUMA node and cores from the kernel; what sits on PCIe and no tool tells of is a missing driver."""
    on_bus = {sysfs.pci_key(bus): facts for bus, facts in sysfs.accelerators(sys_).items()}
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
