"""RDMA ports as `ibstat`, `ibv_devinfo`, `ibdev2netdev`, `rdma link`, `perfquery` and `mlxlink` tell of them."""

import json
import re
from typing import Any, Final

from agents.devices import table
from muster.inspection import FoundNic, Inspection

_LANE_GBPS: Final = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}
_LINK: Final = re.compile(r"^(?:\d+:\s*)?link (\S+)/(\d+) .*?state (\S+)(?: physical_state (\S+))?(?:.* netdev (\S+))?")
_NETDEV: Final = re.compile(r"^(\S+) port (\d+) ==> (\S+) \((\w+)\)")
_COUNTERS: Final = {
    "SymbolErrorCounter": "symbol_errors",
    "LinkErrorRecoveryCounter": "link_error_recovery",
    "LinkDownedCounter": "link_downed",
    "PortRcvErrors": "rcv_errors",
    "PortXmitDiscards": "xmit_discards",
    "PortXmitWait": "xmit_wait",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "excessive_buffer_overrun_errors",
}


def read(text: str) -> Inspection:
    found = Inspection()
    known = [
        _ibstat(text, found),
        _devinfo(text, found),
        _links(text, found),
        _netdevs(text, found),
        _counters(text, found),
    ]
    if not any(known) and not _mlxlink(text, found) and not _json_links(text, found):
        found.half("no RDMA tool was recognised" if text.strip() else "the output is empty")
    _roles(found)
    return found


def state_of(word: str) -> str:
    """ "PORT_ACTIVE (4)", "ACTIVE", "4: ACTIVE", "Active" are one state."""
    word = re.sub(r"^\d+:\s*|PORT_|\s*\(\d+\)$", "", word.strip())
    names = {"init": "Initializing", "initialize": "Initializing", "initializing": "Initializing"}
    return names.get(word.lower(), word.capitalize())


def _ibstat(text: str, found: Inspection) -> bool:
    blocks = re.split(r"^CA '", text, flags=re.MULTILINE)[1:]
    for block in blocks:
        name, _, body = block.partition("'")
        parts = re.split(r"^\s+Port (\d+):\s*$", body, flags=re.MULTILINE)
        card = dict(re.findall(r"^\s+([\w ]+?):\s*(\S.*?)\s*$", parts[0], re.MULTILINE))
        count = table.whole(card.get("Number of ports"))
        ports = list(zip(parts[1::2], parts[2::2], strict=False))
        if count != len(ports):
            found.half(f"{name}: {count} ports are announced, {len(ports)} are described")
        for number, lines in ports:
            facts = dict(re.findall(r"^\s+([\w ]+?):\s*(\S.*?)\s*$", lines, re.MULTILINE))
            if "Link layer" not in facts or "State" not in facts:
                found.half(f"{name} port {number} ends in the middle")
            found.nics.append(_port(name, int(number), count or len(ports), facts, card, found))
    return bool(blocks)


def _port(name: str, port: int, ports: int, facts: dict[str, str], card: dict[str, str], found: Inspection) -> FoundNic:
    lid, manager = table.whole(facts.get("Base lid")), table.whole(facts.get("SM lid"))
    nic = FoundNic(
        name=name if ports == 1 else f"{name}/{port}",
        link_layer=facts.get("Link layer"),
        state=facts.get("State"),
        rate_gbps=table.number(facts.get("Rate")),
        details={
            "device": name,
            "port": port,
            "phys": facts.get("Physical state"),
            "lid": lid,
            "sm_lid": manager,
            "is_sm_local": bool(lid) and lid == manager and lid != 65535,
            "port_guid": facts.get("Port GUID"),
            "type": card.get("CA type"),
            "firmware": card.get("Firmware version"),
            "hardware_version": card.get("Hardware version"),
        },
    )
    problem = _problem(nic.state, facts.get("Physical state"), lid)
    if nic.state == "Down":
        nic.details["rate_is_default"] = True
    if problem:
        nic.details["problem"] = problem
        found.note(f"{nic.name}: {problem}")
    return nic


def _problem(state: str | None, physical: str | None, lid: int | None) -> str | None:
    if state == "Initializing":
        told = " (no lid was given)" if lid in (0, 65535) else ""
        return f"cable is fine, no subnet manager{told}: not usable for RDMA"
    if state == "Down":
        known = {"Polling": "no cable or no peer", "Disabled": "administratively off"}
        return known.get(physical or "", f"down ({physical})" if physical else "down")
    return None


def _devinfo(text: str, found: Inspection) -> bool:
    blocks = re.split(r"^hca_id:\s*", text, flags=re.MULTILINE)[1:]
    for block in blocks:
        name = block.split()[0] if block.split() else ""
        parts = re.split(r"^\s+port:\s+(\d+)\s*$", block, flags=re.MULTILINE)
        card = dict(re.findall(r"^\s+(\w+):\s+(\S.*?)\s*$", parts[0], re.MULTILINE))
        ports = list(zip(parts[1::2], parts[2::2], strict=False))
        if not ports or table.whole(card.get("phys_port_cnt")) != len(ports):
            found.half(f"{name} ends in the middle")
        for number, lines in ports:
            facts = dict(re.findall(r"^\s+(\w+):\s+(\S.*?)\s*$", lines, re.MULTILINE))
            if "link_layer" not in facts:
                found.half(f"{name} port {number} ends in the middle")
            nic = FoundNic(
                name=name if len(ports) == 1 else f"{name}/{number}",
                link_layer=facts.get("link_layer"),
                state=state_of(facts["state"]) if "state" in facts else None,
                details={
                    "device": name,
                    "port": int(number),
                    "active_mtu": table.whole(facts.get("active_mtu")),
                    "max_mtu": table.whole(facts.get("max_mtu")),
                    "lid": table.whole(facts.get("port_lid")),
                    "sm_lid": table.whole(facts.get("sm_lid")),
                    "firmware": card.get("fw_ver"),
                    "part": table.whole(card.get("vendor_part_id")),
                    "node_guid": card.get("node_guid"),
                    "sys_image_guid": card.get("sys_image_guid"),
                    "shares_card": card.get("node_guid") != card.get("sys_image_guid"),
                },
            )
            found.nics.append(nic)
            if problem := _problem(nic.state, None, nic.details["lid"]):
                found.note(f"{nic.name}: {problem}")
    return bool(blocks)


def _links(text: str, found: Inspection) -> bool:
    known = False
    for line in text.split("\n"):
        link = _LINK.match(line.strip())
        if link:
            known = True
            name, port, state, physical, netdev = link.groups()
            _add_link(found, name, int(port), state, physical, netdev)
        elif re.match(r"(\d+: )?link \S", line.strip()):
            known = True
            found.half(f"a line is torn: {line.strip()[:60]}")
    return known


def _add_link(found: Inspection, name: str, port: int, state: str, physical: str | None, netdev: str | None) -> None:
    taken = any(nic.name == name for nic in found.nics)
    nic = FoundNic(name=f"{name}/{port}" if taken else name, state=state_of(state))
    nic.details = {"device": name, "port": port, "phys": physical, "netdev": netdev}
    slot = re.match(r"en(?:P\d+)?p(\d+)s\d+", netdev or "")
    if slot:
        nic.details["pci_bus"] = f"{int(slot.group(1)):02x}"
    found.nics.append(nic)
    if nic.state != "Active":
        found.note(f"{nic.name}: {_problem(nic.state, physical.capitalize() if physical else None, None) or nic.state}")


def _json_links(text: str, found: Inspection) -> bool:
    """`rdma -j link`."""
    try:
        rows = json.loads(text)
    except ValueError:
        return False
    links = [row for row in rows if isinstance(row, dict) and "ifname" in row] if isinstance(rows, list) else []
    for row in links:
        state = str(row.get("state", ""))
        _add_link(
            found, str(row["ifname"]), int(row.get("port", 1)), state, row.get("physical_state"), row.get("netdev")
        )
    return bool(links)


def _netdevs(text: str, found: Inspection) -> bool:
    known = False
    for line in text.split("\n"):
        if row := _NETDEV.match(line.strip()):
            known = True
            nic = FoundNic(name=row.group(1), state=row.group(4))
            nic.details = {"device": row.group(1), "port": int(row.group(2)), "netdev": row.group(3)}
            found.nics.append(nic)
        elif " ==>" in line:
            known = True
            found.half(f"a line is torn: {line.strip()[:60]}")
    if known:
        _same_ports(found)
    return known


def _same_ports(found: Inspection) -> None:
    """A card with two PCIe links shows one port as two devices whose names differ in the PCI domain only."""
    ports: dict[str, list[str]] = {}
    for nic in found.nics:
        ports.setdefault(re.sub(r"^([a-z]+)P\d+(?=p\d+s\d+f\d+$)", r"\1", nic.name), []).append(nic.name)
    shared = [names for names in ports.values() if len(names) == 2]
    if shared and len(shared) == len(ports):
        found.node.details["same_physical_port"] = shared
        found.note("each port is shown as two devices: its bandwidth counts once")
        for nic in found.nics:
            nic.details["same_port_as"] = [n for names in shared if nic.name in names for n in names if n != nic.name]


def _counters(text: str, found: Inspection) -> bool:
    head = re.search(r"^# Port (?:extended )?counters: Lid (\d+) port (\d+)", text, re.MULTILINE)
    if not head:
        return False
    facts = dict(re.findall(r"^(\w+):\.+(\S+)$", text, re.MULTILINE))
    details: dict[str, Any] = {"lid": int(head.group(1)), "port": int(head.group(2))}
    for key, name in _COUNTERS.items():
        details[name] = table.whole(facts.get(key))
    for key, name in (("PortXmitData", "xmit_data_bytes"), ("PortRcvData", "rcv_data_bytes")):
        words = table.whole(facts.get(key))  # counted in words of four bytes
        details[name] = None if words is None else words * 4
    found.nics.append(FoundNic(name=f"lid{head.group(1)}/{head.group(2)}", details=details))
    if "PortXmitWait" not in facts:
        found.half("the counters end in the middle")
    return True


def _mlxlink(text: str, found: Inspection) -> bool:
    facts = _mlxlink_json(text)
    if facts is None:
        if "Operational Info" not in text or not re.search(r"^State\s+: ", text, re.MULTILINE):
            return False
        facts = {
            key.strip(): value.strip() for key, value in re.findall(r"^([A-Z][\w ()/]*?)\s*: (.*)$", text, re.MULTILINE)
        }
    speed, width = facts.get("Speed"), facts.get("Width")
    nic = FoundNic(name="port", state=facts.get("State"), rate_gbps=_rate(speed, width))
    nic.link_layer = "InfiniBand" if (speed or "").startswith("IB-") else "Ethernet" if "GbE" in (speed or "") else None
    nic.details = {"phys": facts.get("Physical state"), "speed": speed, "width": width, "fec": facts.get("FEC")}
    for key, name in (("Raw Physical BER", "raw_ber"), ("Effective Physical BER", "effective_ber")):
        nic.details[name] = _float(facts.get(key))
    nic.details["recommendation"] = facts.get("Recommendation") or None
    sound = nic.state == "Active" and (nic.details["effective_ber"] or 0) < 1e-12 and not nic.details["recommendation"]
    nic.details["verdict"] = "ok" if sound else "not ok"
    found.nics.append(nic)
    if speed is None or width is None:
        found.half("the output ends in the middle")
    return True


def _mlxlink_json(text: str) -> dict[str, str] | None:
    try:
        sections = json.loads(text)["result"]["output"]
        return {key: str(value) for part in sections.values() if isinstance(part, dict) for key, value in part.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _float(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _rate(speed: str | None, width: str | None) -> float | None:
    lanes = table.whole(width)
    if speed and (lane := _LANE_GBPS.get(speed.removeprefix("IB-"))) and lanes:
        return lane * lanes
    found = re.match(r"(\d+(?:\.\d+)?)G", speed or "")
    return float(found.group(1)) if found else None


def _roles(found: Inspection) -> None:
    """Bonds, and the few ports of another driver beside many of one, are the front end; the others are rails in the
    order of their numbers. Where nothing tells them apart, no port is numbered."""
    family = {nic.name: re.sub(r"[\d/]+$", "", nic.name) for nic in found.nics}
    bonds = [nic for nic in found.nics if "bond" in nic.name]
    counts = {kind: sum(other == kind for other in family.values()) for kind in family.values() if "bond" not in kind}
    most = max(counts, key=lambda kind: counts[kind], default="")
    few = [
        nic
        for nic in found.nics
        if family[nic.name] != most and counts.get(family[nic.name], 9) * 4 <= counts.get(most, 0)
    ]
    front = bonds + few
    if not front or any("port" in nic.details and nic.details["port"] > 1 for nic in found.nics):
        return
    rails = sorted(
        (nic for nic in found.nics if nic not in front), key=lambda nic: [int(n) for n in re.findall(r"\d+", nic.name)]
    )
    for nic in front:
        nic.details["role"] = "frontend"
    for number, nic in enumerate(rails):
        nic.rail, nic.details["role"] = number, "rail"
