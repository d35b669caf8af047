"""Events of a kernel log, line by line, whatever stamped the lines: `dmesg`, journal, syslog, fabric manager.

A line is read once. Messages of several lines (a GPU off the bus, an AER report, an out-of-memory kill) are one event.
"""

import re
from typing import Final

from agents.health import kernel_rules, stamps, xids
from muster.inspection import FoundEvent, Inspection

_XID: Final = re.compile(r"Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\):\s*(\d+),?\s*(.*)")
_XID_TURNED: Final = re.compile(r"Xid (\d+) \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\):\s*(.*)")
_SXID: Final = re.compile(r"SXid \((?:PCI:)?([0-9a-fA-F:.]+)\):\s*(\d+),\s*(.*)")
_SWITCH: Final = re.compile(r"NVSwitch (non-fatal|fatal) error (\d+) .*?pci bus id ([0-9a-fA-F:.]+)")
_GPU: Final = re.compile(
    r"NVRM: (?:The NVIDIA GPU|GPU(?: at)?(?: PCI:)?) ?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.\d)?)"
)
_OFF_BUS: Final = re.compile(r"NVRM:.*fallen off the bus")
_AER: Final = re.compile(
    r"(?:\S+ )?([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d): AER: (?:Multiple )?(Corrected|Uncorrected \((?:Non-)?Fatal\)|Uncorrectable \((?:Non-)?Fatal\)) error (?:message )?received"
)
_BUS_ERROR: Final = re.compile(
    r"([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d): (?:AER: )?PCIe Bus Error: severity=(Corrected|Uncorrect\w+ \((?:Non-)?Fatal\))"
)
_AER_BIT: Final = re.compile(r"([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d): (?:AER:)?\s*\[\s*\d+\]\s+(\S.*)")
_MCE: Final = re.compile(r"\[Hardware Error\]: CPU (\d+): Machine Check(?: Exception)?: \w+ Bank (\d+): ([0-9a-f]+)")
_KILLED: Final = re.compile(r"[Oo]ut of memory:? Kill(?:ed)? process (\d+),?(?: UID \d+,)? \(([^)]*)\)")
_REAPED: Final = re.compile(r"oom_reaper: reaped process (\d+) \(([^)]*)\)")
_OOM: Final = re.compile(r"oom-kill:constraint=(\w+)")
_NVME_BUS: Final = re.compile(r"^nvme ([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d): ")
_LONGEST: Final = 2048  # characters; the kernel cuts its own lines at half of it
_AER_CODES: Final = {
    "corrected": ("aer-corrected", "warning", "watch: look at the device below this port"),
    "nonfatal": ("aer-uncorrected-nonfatal", "error", "drain on repeat; look at the device below this port"),
    "fatal": ("aer-uncorrected-fatal", "fatal", "drain; reseat the device below this port"),
}


class KernelLog:
    """Takes lines in their order; remembers what a message of several lines needs, and nothing more."""

    def __init__(self) -> None:
        self._time: str | None = None
        self._gpu: str | None = None
        self._aer: FoundEvent | None = None
        self._killed: set[str] = set()
        self._nvme: str | None = None
        self._lost: set[str] = set()
        self.stamped = 0

    def feed(self, raw: str) -> list[FoundEvent]:
        """Events of this line; an event may get more text from later lines."""
        events: list[FoundEvent] = []
        for piece in stamps.pieces(raw[:_LONGEST]):
            line = stamps.split(piece)
            if line.time is not None:
                self._time, self.stamped = line.time, self.stamped + 1
            elif not line.message.startswith("NVRM"):
                self._gpu = None
            event = self._event(line)
            if event is not None:
                event.time = line.time if line.time is not None or event.code != "gpu-off-bus" else self._time
                events.append(event)
        return events

    def _event(self, line: stamps.Line) -> FoundEvent | None:
        text = line.message
        if "NVRM" in text or "Xid" in text or "NVSwitch" in text:
            return self._nvidia(text) or _by_rule(text)
        if "AER" in text or "PCIe Bus Error" in text or _AER_BIT.search(text):
            return self._pcie(text)
        if "Machine Check" in text:
            return _machine_check(text)
        if "oom" in text or "emory" in text:
            return self._memory(text) or _by_rule(text)
        if found := _NVME_BUS.match(text):
            self._nvme = found.group(1)
        event = _by_rule(text)
        if event is not None and event.code in ("nvme-removed", "disk-gone") and self._nvme:
            event.text += f" [{self._nvme}]"
        return event

    def _nvidia(self, text: str) -> FoundEvent | None:
        if found := _SXID.search(text):
            fatal = not re.match(r"non-?fatal", found.group(3), re.IGNORECASE)
            return _switch(int(found.group(2)), fatal, found.group(1), text)
        if found := _SWITCH.search(text):
            return _switch(int(found.group(2)), found.group(1) == "fatal", found.group(3), text)
        if found := _XID.search(text):
            return self._xid(int(found.group(2)), found.group(1), text)
        if found := _XID_TURNED.search(text):
            return self._xid(int(found.group(1)), found.group(2), text)
        if found := _GPU.search(text):
            self._gpu = found.group(1)
        if _OFF_BUS.search(text):
            device, self._gpu = self._gpu, None
            if device and _slot(device) in self._lost:
                return None
            self._lost |= {_slot(device)} if device else set()
            action = xids.table()[79].action
            return FoundEvent(
                code="gpu-off-bus", device=device, severity="fatal", action=f"as Xid 79: {action}", text=text
            )
        return None

    def _xid(self, number: int, device: str, text: str) -> FoundEvent:
        if number == 79:
            self._lost.add(_slot(device))
        known = xids.judge(number, text)
        return FoundEvent(code=f"Xid {number}", device=device, severity=known.severity, action=known.action, text=text)

    def _pcie(self, text: str) -> FoundEvent | None:
        """A report is: received, then what it is, then its bits; the later lines join the first."""
        if found := _AER.search(text) or _BUS_ERROR.search(text):
            kind = "corrected" if found.group(2) == "Corrected" else "nonfatal" if "Non" in found.group(2) else "fatal"
            code, severity, action = _AER_CODES[kind]
            waiting = self._aer
            if waiting is not None and (waiting.device, waiting.code) == (found.group(1), code) and "Bus Error" in text:
                waiting.text += f"; {text.split(': ', 1)[-1]}"
                return None
            self._aer = FoundEvent(code=code, device=found.group(1), severity=severity, action=action, text=text)
            return self._aer
        bit = _AER_BIT.search(text)
        if bit and self._aer is not None and bit.group(1) == self._aer.device:
            self._aer.text += f"; {bit.group(2)}"
            return None
        return _by_rule(text)

    def _memory(self, text: str) -> FoundEvent | None:
        action = "more memory for the job, or fewer of them on the node"
        if found := _KILLED.search(text):
            self._killed.add(found.group(1))
            who = f"pid {found.group(1)} ({found.group(2)})"
            return FoundEvent(code="oom-kill", device=who, severity="error", action=action, text=text)
        if found := _REAPED.search(text):
            if found.group(1) in self._killed:
                return None
            who = f"pid {found.group(1)} ({found.group(2)})"
            return FoundEvent(code="oom-kill", device=who, severity="error", action=action, text=text)
        if _OOM.search(text):
            return FoundEvent(code="oom-context", severity="info", action="see the kill that follows", text=text)
        return None


def read(text: str) -> Inspection:
    found, log = Inspection(), KernelLog()
    left_out = False
    for line in text.split("\n"):
        left_out |= line.strip() in ("[…]", "[...]", "...")
        found.events += log.feed(line)
    if left_out:
        found.half("lines were left out")
    if not found.events and not log.stamped:
        found.half("no line of a kernel log was recognised" if text.strip() else "the log is empty")
    return found


def _slot(device: str) -> str:
    """The address without domain zeros and function, by which messages about one GPU are compared."""
    return re.sub(r"\.\d$", "", device.lower())[-7:]


def _switch(number: int, fatal: bool, device: str, text: str) -> FoundEvent:
    known = xids.judge_switch(number, fatal)
    return FoundEvent(code=f"SXid {number}", device=device, severity=known.severity, action=known.action, text=text)


def _machine_check(text: str) -> FoundEvent | None:
    found = _MCE.search(text)
    if not found:
        return None
    status = int(found.group(3)[:16], 16)
    uncorrected = bool(status >> 61 & 1)
    lost = ", context corrupt" if status >> 57 & 1 else ""
    return FoundEvent(
        code="mce-uncorrected" if uncorrected else "mce-corrected",
        device=f"cpu {found.group(1)} bank {found.group(2)}",
        severity="fatal" if uncorrected else "warning",
        action="drain; replace processor or board on repeat" if uncorrected else "watch",
        text=f"{text} ({'un' if uncorrected else ''}corrected{lost})",
    )


def _by_rule(text: str) -> FoundEvent | None:
    found = kernel_rules.match(text)
    if found is None:
        return None
    rule, device = found
    return FoundEvent(code=rule.code, device=device, severity=rule.severity, action=rule.action, text=text)
