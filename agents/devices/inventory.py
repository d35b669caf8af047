"""The node's inventory, as the agent offers it: what the configuration says, or what this machine was found to have."""

from collections import Counter
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from agents.config import AgentConfig
from agents.devices import host
from agents.devices.known import UNKNOWN, Known
from agents.devices.virtual import virtual_devices
from muster.conditions import Condition
from muster.inspection import FoundDevice, FoundNic, Inspection
from muster.protocol import Device, Inventory, Nic


def take(config: AgentConfig) -> Inventory:
    """Without the devices that are still to be found. Raises ValueError when the configuration names devices that do
    not exist."""
    return Inventory(
        address=config.address,
        host=host.network_id(),
        cpu_milli=config.cpu_milli or host.cpu_milli(),
        memory=config.memory or host.memory(),
        devices=virtual_devices(config.virtual_devices),
        labels=config.labels,
        interface=host.interface_of(config.address),
        ephemeral_ports=host.ephemeral_ports(),
    )


def known_of(have: Inventory) -> tuple[Known, ...]:
    """Virtual devices are known by their configuration."""
    return tuple(
        Known(index=one.index, vendor=one.vendor, type=one.type, bus=one.bus, model=one.model) for one in have.devices
    )


def trimmed(known: tuple[Known, ...], expected: int | None, seen: Collection[int]) -> tuple[Known, ...]:
    """Who expects fewer devices than this node has had wants those forgotten that are gone."""
    gone = [one for one in known if one.index not in seen]
    surplus = 0 if expected is None else max(0, len(known) - expected)
    forgotten = gone[len(gone) - min(surplus, len(gone)) :] if surplus else []
    return tuple(one for one in known if one not in forgotten)


def compose(
    given: Inventory,
    found: Inspection | None,
    known: Sequence[Known],
    conditions: Sequence[Condition],
    virtual: bool,
) -> Inventory:
    """What is offered now. A device with a condition that blocks is not healthy and says why; one that is gone stays in
    the list, so that the others keep their numbers and somebody misses it."""
    troubles: dict[int, list[str]] = {}
    for one in conditions:
        if one.device is not None and one.blocking:
            troubles.setdefault(one.device, []).append(one.reason)
    devices: Sequence[Device] = given.devices if virtual or found is None else _devices(found, known)
    devices = tuple(
        replace(one, healthy=False, problems=tuple(troubles[one.index][:4]))
        if one.index in troubles
        else replace(one, healthy=True, problems=())
        if found is None or virtual
        else one
        for one in devices
    )
    if found is None:
        return replace(given, devices=devices)
    unknown = [f"unknown model {one.model!r}: no job can ask for it" for one in devices if one.type == UNKNOWN]
    problems = tuple(dict.fromkeys(problem[:200] for problem in [*found.problems, *unknown]))[:20]
    return replace(given, devices=devices, nics=tuple(map(_nic, found.nics)), problems=problems)


def _devices(found: Inspection, known: Sequence[Known]) -> list[Device]:
    seen = {device.index: device for device in found.devices}
    names = [nic.name for nic in found.nics]
    cards = Counter((one.vendor, one.card) for one in known)
    return [
        _device(one, seen.get(one.index), names, one.card if cards[one.vendor, one.card] > 1 else None) for one in known
    ]


def _device(one: Known, seen: FoundDevice | None, nics: list[str], card: int | None) -> Device:
    nearest = tuple(seen.nearest_nics) if seen else ()
    parts = (
        [str(part.get("uuid") or part.get("index")) for part in (seen.details.get("mig_devices") or ())] if seen else []
    )
    return Device(
        index=one.index,
        type=one.type,
        vendor=one.vendor,
        model=one.model,
        memory_mib=one.memory_mib,
        uuid=one.uuid,
        bus=one.bus,
        numa=seen.numa if seen else None,
        group=seen.group if seen else None,
        card=card,
        nic=nics.index(nearest[0]) if nearest and nearest[0] in nics else None,
        healthy=seen is not None,
        problems=() if seen is not None else ("DeviceMissing",),
        nics=nearest,
        parts=tuple(parts),
    )


def _nic(one: FoundNic) -> Nic:
    bus, netdev = one.details.get("bus"), one.details.get("netdev")
    return Nic(
        name=one.name,
        netdev=netdev if isinstance(netdev, str) else None,
        link_layer=one.link_layer,
        state=one.state,
        rate_gbps=one.rate_gbps,
        numa=one.numa,
        rail=one.rail,
        bus=bus if isinstance(bus, str) else None,
        virtual_function=bool(one.details.get("virtual_function")),
    )
