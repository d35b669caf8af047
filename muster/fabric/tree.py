"""Switches above switches above hosts: levels counted from the hosts, domains, and what does not fit."""

from collections.abc import Mapping, Sequence
from typing import Final

from muster.inspection import Inspection

_NAMES: Final = ("leaf", "spine", "core")


def level_name(height: int) -> str:
    """Height 1 is the switch that hosts hang on."""
    return _NAMES[height - 1] if height <= len(_NAMES) else f"tier-{height}"


def place(
    parents: Mapping[str, str], hosts: Mapping[str, Sequence[str]], switches: Sequence[str], into: Inspection
) -> None:
    """Fills `into.fabric` and the summary. `parents`: switch -> the one above; `hosts`: switch -> its own hosts."""
    chains = {name: _chain(name, parents, into) for name in switches}
    height: dict[str, int] = {}
    for name in switches:
        if hosts.get(name):
            for step, above in enumerate(chains[name], start=1):
                height[above] = max(height.get(above, 0), step)
    empty = [name for name in switches if name not in height]
    roots = [name for name in switches if name not in parents]
    tops = [name for name in roots if name in height]
    _domains(chains, hosts, height, into)
    if len(tops) > 1:
        into.note(f"{len(tops)} roots without a common one ({', '.join(tops[:5])}): no path from one to another")
        into.fabric.levels.insert(0, "root")
        into.fabric.domains = {"root": {top: _below(top, chains, hosts) for top in tops}, **into.fabric.domains}
    if empty:
        into.note(f"switches without hosts: {', '.join(empty[:10])}{' ...' if len(empty) > 10 else ''}")
    placed = [host for name in switches for host in hosts.get(name, ())]
    twice = sorted({host for host in placed if placed.count(host) > 1}) if len(placed) != len(set(placed)) else []
    if twice:
        into.note(f"nodes below more than one switch: {', '.join(twice[:10])}")
    into.node.details |= {
        "switches": len(switches),
        "depth": max(height.values(), default=0),
        "leaves": sum(bool(hosts.get(name)) for name in switches),
        "nodes": len(set(placed)),
        "roots": roots,
        "root": tops[0] if len(tops) == 1 else None,
        "switches_without_hosts": empty,
    }


def _chain(name: str, parents: Mapping[str, str], into: Inspection) -> list[str]:
    """From `name` to its root; a circle is cut and told."""
    chain = [name]
    while chain[-1] in parents:
        above = parents[chain[-1]]
        if above in chain:
            into.half(f"switches in a circle: {above}")
            break
        chain.append(above)
    return chain


def _domains(
    chains: Mapping[str, list[str]], hosts: Mapping[str, Sequence[str]], height: Mapping[str, int], into: Inspection
) -> None:
    domains: dict[int, dict[str, list[str]]] = {}
    for name, chain in chains.items():
        for above in chain if hosts.get(name) else ():
            domains.setdefault(height[above], {}).setdefault(above, []).extend(hosts[name])
    for number in sorted(domains, reverse=True):
        into.fabric.levels.append(level_name(number))
        into.fabric.domains[level_name(number)] = domains[number]


def _below(top: str, chains: Mapping[str, list[str]], hosts: Mapping[str, Sequence[str]]) -> list[str]:
    return [host for name, chain in chains.items() if chain[-1] == top for host in hosts.get(name, ())]
