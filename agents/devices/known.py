"""Devices keep their numbers: a tool counts anew when one falls out, this node does not."""

from collections.abc import Sequence
from typing import Final

import msgspec

from agents.devices.sysfs import pci_key
from muster.inspection import FoundDevice, Inspection

UNKNOWN: Final = "unknown"


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A device that this node has had: what it is called for ever, and how it is recognised."""

    index: int
    vendor: str
    type: str
    uuid: str | None = None
    bus: str | None = None
    model: str = ""
    memory_mib: int | None = None
    card: int | None = None
    chip: int | None = None
    """Of a card with several devices: its number, and the device's number on it (Ascend)."""


def settle(found: Inspection, known: Sequence[Known]) -> tuple[Known, ...]:
    """Gives every device in `found` its number: the one that it has had (by UUID, else by address, else by number),
    or a new one. Returns all devices that this node has had, by number."""
    left = {one.index: one for one in known}
    numbers: dict[int, int] = {}
    everything: dict[int, Known] = dict(left)
    strangers: list[FoundDevice] = []
    for device in found.devices:
        one = _recognise(device, list(left.values()))
        if one is None:
            strangers.append(device)
            continue
        del left[one.index]
        numbers[device.index] = one.index
        everything[one.index] = _as(device, one.index, one)
    for device in strangers:
        index = device.index if device.index not in everything else max(everything, default=-1) + 1
        numbers[device.index] = index
        everything[index] = _as(device, index, None)
    for device in found.devices:
        device.index = numbers[device.index]
    found.groups = [[numbers.get(index, index) for index in group] for group in found.groups]
    found.devices.sort(key=lambda device: device.index)
    return tuple(everything[index] for index in sorted(everything))


def _recognise(device: FoundDevice, known: list[Known]) -> Known | None:
    uuid, vendor = device.details.get("uuid"), device.vendor or ""
    by = [one for one in known if one.vendor == vendor]
    if uuid:
        exact = [one for one in by if one.uuid == uuid]
        if exact:
            return exact[0]
    if device.bus:
        there = [one for one in by if one.bus and pci_key(one.bus) == pci_key(device.bus)]
        if there:
            return there[0]
        by = [one for one in by if not one.bus]
    if uuid:
        by = [one for one in by if not one.uuid]
    return next((one for one in by if one.index == device.index), None)


def _as(device: FoundDevice, index: int, before: Known | None) -> Known:
    """What a half-read device does not tell stays as it was."""
    model = device.model or (before.model if before else "")
    return Known(
        index=index,
        vendor=device.vendor or "",
        type=type_of(model) if model else before.type if before else UNKNOWN,
        uuid=device.details.get("uuid") or (before.uuid if before else None),
        bus=device.bus or (before.bus if before else None),
        model=model,
        memory_mib=device.memory_mib or (before.memory_mib if before else None),
        card=_number(device, "npu_id", before.card if before else None),
        chip=_number(device, "chip_id", before.chip if before else None),
    )


def _number(device: FoundDevice, name: str, before: int | None) -> int | None:
    told = device.details.get(name)
    return told if isinstance(told, int) else before


def type_of(model: str) -> str:
    """The catalogue's name; `unknown` for a model that is not in it: never guessed."""
    from muster.accelerators import canonical  # the catalogue is read only where there is a device

    return canonical(model) or UNKNOWN
