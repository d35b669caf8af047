"""`hccn_tool`: the RoCE port of each NPU: link, health, optics, address."""

import ipaddress
import re
from typing import Any, Final

from agents.devices import table
from muster.inspection import FoundDevice, FoundNic, Inspection

_COMMAND: Final = re.compile(r"hccn_tool\s+-i\s+(\S+)\s+-(\w+)")
_LOOP: Final = re.compile(r"\{(\d+)\.\.(\d+)\}")
_ENTRY: Final = re.compile(r"^(?:\[devid (\d+)\])?\s*([A-Za-z][\w ]*?)\s*:\s*(.*)$")
_RECORD: Final = re.compile(r"^\[devid (\d+)\]\s+(\w{3} \w{3}\s+\d+ [\d:]+ \d{4})\s+LINK (UP|DOWN)")
_WAITING: Final = {"init", "detect ip set"}


def read(text: str, into: Inspection) -> bool:
    """False when nothing here is of this tool. Without a device id, the order of the answers is the device."""
    if not re.search(r"hccn_tool|^net health status:|^link status:|^ipaddr:", text, re.MULTILINE):
        return False
    device: int | None = None
    topic, counts, first, last, waiting = "", dict[str, int](), 0, -1, False
    for line in text.split("\n"):
        command, record, entry = _COMMAND.search(line), _RECORD.match(line), _ENTRY.match(line.strip())
        waiting = bool(command) or (waiting and not entry and not record)
        if command:
            topic, loop = command.group(2), _LOOP.search(line)
            device = int(command.group(1)) if command.group(1).isdigit() else None
            counts, first = {}, int(loop.group(1)) if loop else 0
            last = max(last, int(loop.group(2))) if loop else last
        elif record:
            events = _of(into, int(record.group(1))).details.setdefault("link_events", [])
            events.append({"time": record.group(2), "state": record.group(3)})
        elif entry:
            key = entry.group(2).strip().lower()
            index = int(entry.group(1)) if entry.group(1) else device
            if index is None:
                index = first + counts.get(key, 0)
                counts[key] = counts.get(key, 0) + 1
            _entry(_of(into, index), topic, key, entry.group(3).strip())
    into.devices.sort(key=lambda found: found.index)
    if not into.devices or waiting:
        into.half("a question without an answer")
    if last >= 0 and len(into.devices) < last - first + 1:
        into.half(f"{last - first + 1} devices were asked, {len(into.devices)} answered")
    for found in into.devices:
        _judge(found)
        into.nics.append(_port(found))
    _planes(into)
    return True


def _of(into: Inspection, index: int) -> FoundDevice:
    device = into.device(index)
    device.vendor = "ascend"
    return device


def _entry(device: FoundDevice, topic: str, key: str, value: str) -> None:
    details = device.details
    if key == "link status":
        details["link"] = value
    elif key == "net health status":
        details["net_health"] = value
    elif key == "link up count":
        details["link_up_count"] = table.whole(value)
    elif key in ("ipaddr", "netmask"):
        details[{"ipaddr": "ip"}.get(key, key)] = value
    elif key == "fec mode":
        details["fec_mode"] = value
    elif topic == "stat" and value.isdigit():
        details.setdefault("counters", {})[key] = int(value)
    elif topic == "optical" and value:
        details.setdefault("optical", {})[key] = value


def _judge(device: FoundDevice) -> None:
    details, bad = device.details, list[str]()
    events = details.get("link_events") or []
    if events:  # newest first
        details["last_link_event"] = events[0]["state"]
    if details.get("link", details.get("last_link_event")) == "DOWN":
        bad.append("link down")
    health = details.get("net_health")
    if health and health.lower() in _WAITING:
        device.problems.append(f"link detection not finished: net health is {health}")
    elif health and health != "Success":
        bad.append(f"net health is {health}")
    optical = details.get("optical")
    if optical:
        bad += _optical(details, optical)
    errors = {name: n for name, n in details.get("counters", {}).items() if "err" in name and n}
    if errors:
        device.problems.append(f"packet errors: {errors}")
    device.problems += bad
    device.healthy = False if bad else True if "link" in details or health or events else None


def _optical(details: dict[str, Any], optical: dict[str, str]) -> list[str]:
    powers = [table.number(optical[key]) for key in sorted(optical) if re.fullmatch(r"rx power\d+", key)]
    low = table.number(optical.get("rxpower low thres"))
    details |= {
        "optical_present": optical.get("present") == "present" if "present" in optical else None,
        "rx_power_mw": powers,
        "rx_low_thres_mw": low,
        "los_rx": optical.get("rx los flag"),
    }
    bad = [
        f"lane {lane}: received power {power} mW is below {low} mW"
        for lane, power in enumerate(powers)
        if power is not None and low is not None and power < low
    ]
    if optical.get("rx los flag", "0x0") not in ("0x0", "0x00"):
        bad.append(f"loss of received signal: {optical['rx los flag']}")
    return bad


def _port(device: FoundDevice) -> FoundNic:
    details = device.details
    state = details.get("link", details.get("last_link_event"))
    kept = {key: details[key] for key in ("ip", "netmask", "net_health", "counters", "link_up_count") if key in details}
    return FoundNic(
        name=f"npu{device.index}", link_layer="Ethernet", state=state, details={"device": device.index} | kept
    )


def _planes(into: Inspection) -> None:
    """Devices whose addresses are of one network share a plane of the fabric."""
    planes: dict[str, list[int]] = {}
    for device in into.devices:
        try:
            network = ipaddress.ip_network(f"{device.details['ip']}/{device.details['netmask']}", strict=False)
        except (KeyError, ValueError):
            continue
        planes.setdefault(str(network), []).append(device.index)
        device.details["plane"] = str(network)
    if planes:
        into.node.details["planes"] = planes
        into.groups = list(planes.values())
        for number, group in enumerate(into.groups):
            for index in group:
                into.device(index).group = number
