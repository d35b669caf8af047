"""`ibnetdiscover`, in full and with `-p`: which host hangs on which leaf, and what is no host."""

import re
from typing import Final

from muster.inspection import Inspection

_BLOCK: Final = re.compile(r'^(Switch|Ca|Rt)\s+\d+\s+"([SHR]-[0-9a-f]+)"\s*#\s*"([^"]*)"')
_PORT: Final = re.compile(
    r'^\[(\d+)\](?:\([0-9a-f]+\))?\s+"([SH]-[0-9a-f]+)"\[(\d+)\](?:\([0-9a-f]+\))?\s*#\s*(?:"([^"]*)")?(.*)$'
)
_PEER: Final = re.compile(
    r"^(CA|SW|RT)\s+(\d+)\s+(\d+)\s+(0x[0-9a-f]+)\s+(\S+ \S+)\s+-\s+(CA|SW|RT)\s+(\d+)\s+(\d+)\s+(0x[0-9a-f]+)\s+\(\s*'?(.*?)'?\s+-\s+'?(.*?)'?\s*\)\s*$"
)
_DEAD: Final = re.compile(r"^(CA|SW|RT)\s+(\d+)\s+(\d+)\s+(0x[0-9a-f]+)\s+(\S+ \S+)\s+'?([^']*?)'?\s*$")
_HOST: Final = re.compile(r"^(\S+)\s+((?:mlx|hfi|ib|bnxt|ionic)\w*|HCA-\d+)$")
_UNKNOWN_HOSTS: Final = {"localhost", "ubuntu", "(none)", "host", "node", "linux"}


def read(text: str, into: Inspection) -> bool:
    """False when this is none of them."""
    if re.search(r'^(Switch|Ca)\s+\d+\s+"', text, re.MULTILINE):
        _full(text, into)
        return True
    if re.search(r"^(CA|SW)\s+\d+\s+\d+\s+0x", text, re.MULTILINE):
        _peers(text, into)
        return True
    return False


def host_of(description: str) -> tuple[str | None, str | None]:
    """Host and adapter of a node description; a host that nobody named is None."""
    found = _HOST.match(description.strip())
    if not found or found.group(1).lower() in _UNKNOWN_HOSTS:
        return None, found.group(2) if found else None
    return found.group(1), found.group(2)


def _full(text: str, into: Inspection) -> None:
    switches: dict[str, str] = {}
    adapters: dict[str, str] = {}
    links: dict[str, list[tuple[str, str]]] = {}
    here, torn = "", 0
    for line in text.split("\n"):
        block, port = _BLOCK.match(line), _PORT.match(line)
        if block:
            here = block.group(2)
            (switches if block.group(1) == "Switch" else adapters)[here] = block.group(3)
        elif port and here:
            said = port.group(4) or next(iter(re.findall(r'"([^"]*)"', port.group(5))), "")
            links.setdefault(here, []).append((port.group(2), said))
        elif line.startswith("["):
            torn += 1
    if torn:
        into.half(f"{torn} lines of ports are torn")
    names: dict[str, str] = dict(switches)
    for peers in links.values():
        names |= {peer: said for peer, said in peers if peer.startswith("S-") and said and peer not in names}
    missing = [peer for peers in links.values() for peer, _ in peers if peer.startswith("S-") and peer not in switches]
    if missing:
        into.half(f"{len(set(missing))} switches are named and not described")
    attached: dict[str, list[str]] = {}
    for switch in switches:
        attached[switch] = [said for peer, said in links.get(switch, ()) if peer.startswith("H-")]
    for adapter, said in adapters.items():
        for peer, _ in links.get(adapter, ()):
            if said not in attached.setdefault(peer, []):
                attached[peer].append(said)
    uplinks = {names[s]: sum(peer.startswith("S-") for peer, _ in links.get(s, ())) for s in switches}
    _leaves({names.get(switch, switch): said for switch, said in attached.items()}, into)
    into.node.details |= {
        "switch_blocks": len(switches),
        "ca_blocks": len(adapters),
        "switch_links": uplinks,
        "asics_of_one_switch": {n: n.rpartition("/")[2] for n in names.values() if re.search(r"/U\d+$", n)},
    }
    _islands(
        [(names.get(a, a), names.get(b, b)) for a in switches for b, _ in links.get(a, ()) if b.startswith("S-")], into
    )


def _peers(text: str, into: Inspection) -> None:
    attached: dict[str, list[str]] = {}
    between: list[tuple[str, str]] = []
    seen, dead, described = 0, [], set[str]()
    unique: set[frozenset[tuple[str, str]]] = set()
    for line in text.split("\n"):
        if link := _PEER.match(line):
            seen += 1
            ends = (
                (link.group(1), link.group(4), link.group(3), link.group(10)),
                (link.group(6), link.group(9), link.group(8), link.group(11)),
            )
            unique.add(frozenset((guid, port) for _, guid, port, _ in ends))
            one, other = ({"kind": kind, "name": name.strip()} for kind, _, _, name in ends)
            if one["kind"] == "SW":
                described.add(one["name"])
            if one["kind"] == other["kind"] == "SW":
                between.append((one["name"], other["name"]))
            for host, switch in ((one, other), (other, one)):
                if (
                    host["kind"] == "CA"
                    and switch["kind"] == "SW"
                    and host["name"] not in attached.setdefault(switch["name"], [])
                ):
                    attached[switch["name"]].append(host["name"])
        elif port := _DEAD.match(line):
            described.add(port.group(6).strip())
            dead.append({"switch": port.group(6).strip(), "port": int(port.group(3)), "speed": port.group(5)})
        elif re.match(r"(CA|SW)\s", line):
            into.half(f"a line is torn: {line[:60]}")
    _leaves(attached, into)
    aggregation = sum("Aggregation Node" in line for line in text.split("\n"))
    into.node.details |= {
        "lines_with_peer": seen,
        "unique_links": len(unique),
        "dead_ports": dead,
        "aggregation_nodes": aggregation,
    }
    _islands(between, into)


def _leaves(attached: dict[str, list[str]], into: Inspection) -> None:
    leaves: dict[str, list[str]] = {}
    rails: dict[str, set[str]] = {}
    counts = {"compute": dict[str, int](), "aggregation": dict[str, int]()}
    for switch, said in attached.items():
        for description in said:
            kind = "aggregation" if "Aggregation Node" in description else "compute"
            counts[kind][switch] = counts[kind].get(switch, 0) + 1
            host, adapter = host_of(description)
            if kind == "aggregation":
                continue
            if host is None:
                label = f"{description} on {switch}"
                into.fabric.unplaced += [label] if label not in into.fabric.unplaced else []
            elif host not in leaves.setdefault(switch, []):
                leaves[switch].append(host)
            if adapter:
                rails.setdefault(switch, set()).add(adapter)
    if into.fabric.unplaced:
        into.note(f"{len(into.fabric.unplaced)} adapters whose host nobody named")
    into.fabric.levels, into.fabric.domains = ["leaf"], {"leaf": leaves}
    many = {host for hosts in leaves.values() for host in hosts if sum(host in other for other in leaves.values()) > 1}
    if many:
        into.note(f"{len(many)} hosts hang on several leaves, one a rail")
    into.node.details |= {
        "adapters_on_leaf": counts["compute"],
        "aggregation_on_leaf": counts["aggregation"],
        "rails": {switch: sorted(names) for switch, names in rails.items()},
        "host_leaf": {host: leaf for leaf, hosts in leaves.items() for host in hosts if host not in many},
        "not_a_host": ["Mellanox Technologies Aggregation Node"] if counts["aggregation"] else [],
        "switches_without_hosts": [],
    }


def _islands(between: list[tuple[str, str]], into: Inspection) -> None:
    """Switches that are joined are one island; more than one is told."""
    leaves = into.fabric.domains["leaf"]
    left = {name for pair in between for name in pair} | set(leaves)
    near: dict[str, set[str]] = {}
    for one, other in between:
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    into.node.details["switches_without_hosts"] = sorted(left - set(leaves))
    islands: dict[str, list[str]] = {}
    while left:
        island, edge = set[str](), [min(left)]
        while edge:
            name = edge.pop()
            if name not in island:
                island.add(name)
                edge += near.get(name, set()) - island
        left -= island
        hosts = list(dict.fromkeys(host for leaf in sorted(island) for host in leaves.get(leaf, ())))
        if hosts:
            islands[min(leaf for leaf in island if leaf in leaves)] = hosts
    if len(islands) > 1 and into.complete:
        into.note(f"{len(islands)} parts without a common switch")
        into.fabric.levels.insert(0, "root")
        into.fabric.domains = {"root": islands, **into.fabric.domains}
