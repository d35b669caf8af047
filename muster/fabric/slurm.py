"""Slurm's `topology.conf` (tree and block) and `topology.yaml`; Topograph prints the same."""

import re
from typing import Any, Final

import yaml

from muster.fabric import tree
from muster.fabric.hostlist import expand
from muster.inspection import Inspection

_LINE: Final = re.compile(r"^\s*(SwitchName|BlockName|BlockSizes)\s*=", re.IGNORECASE | re.MULTILINE)
_YAML: Final = re.compile(r"^\s*-?\s*(?:topology|tree|block):", re.MULTILINE)
_LONGEST: Final = 512 * 1024


def read(text: str, into: Inspection) -> bool:
    """False when this is none of them."""
    if not _LINE.search(text):
        return bool(_YAML.search(text)) and "\n" in text and _yaml(text, into)
    entries: list[dict[str, str]] = []
    names: dict[str, str] = {}
    for number, raw in enumerate(text.split("\n"), start=1):
        comment = re.match(r"#\s*([\w.-]+)=([\w.-]+)\s*$", raw)
        line = raw.partition("#")[0].strip()
        if comment:
            names[comment.group(1)] = comment.group(2)
        elif line:
            entry = {key.lower(): value for key, value in re.findall(r"(\w+)\s*=\s*(\S+)", line)}
            if entry.keys() & {"switchname", "blockname", "blocksizes"}:
                entries.append(entry)
            else:
                into.half(f"line {number} is not understood: {line[:60]}")
    if names:
        into.node.details["real_names"] = names
    if any("blockname" in entry for entry in entries):
        _blocks(entries, into)
    else:
        _switches(entries, into)
    return True


def _switches(entries: list[dict[str, str]], into: Inspection) -> None:
    parents: dict[str, str] = {}
    hosts: dict[str, list[str]] = {}
    switches: list[str] = []
    for entry in entries:
        for name in _names(entry.get("switchname", ""), into):
            if name in switches:
                into.note(f"switch {name} is described twice")
            else:
                switches.append(name)
            hosts.setdefault(name, []).extend(_names(entry.get("nodes", ""), into))
            for below in _names(entry.get("switches", ""), into):
                if parents.setdefault(below, name) != name:
                    into.note(f"switch {below} is below {parents[below]} and {name}: only the first counts")
    missing = [name for name in parents if name not in switches]
    if missing:
        into.half(f"switches are named and not described: {', '.join(missing[:10])}")
    into.node.details["type"] = "slurm topology/tree"
    tree.place(parents, hosts, switches + missing, into)


def _blocks(entries: list[dict[str, str]], into: Inspection) -> None:
    blocks: dict[str, list[str]] = {}
    sizes: list[int] | None = None
    for entry in entries:
        if "blocksizes" in entry:
            sizes = [int(size) for size in entry["blocksizes"].split(",") if size.isdigit()]
        elif "blockname" in entry:
            nodes = _names(entry.get("nodes", ""), into)
            if entry["blockname"] in blocks:
                into.note(f"block {entry['blockname']} is described twice")
            blocks.setdefault(entry["blockname"], []).extend(nodes)
            if not nodes:
                into.half(f"block {entry['blockname']} has no nodes")
    if sizes is None:
        into.half("no BlockSizes: the file may be cut")
    into.fabric.levels, into.fabric.domains = ["block"], {"block": blocks}
    into.node.details |= {
        "type": "slurm topology/block",
        "blocks": len(blocks),
        "nodes": len({node for nodes in blocks.values() for node in nodes}),
        "block_sizes": sizes,
    }


def _names(text: str, into: Inspection) -> list[str]:
    try:
        return expand(text)
    except ValueError as error:
        into.half(str(error))
        return []


def _yaml(text: str, into: Inspection) -> bool:
    if len(text) > _LONGEST:
        into.half("the YAML is longer than 512 KiB: not read")
        return True
    try:
        documents = yaml.safe_load(text)
    except yaml.YAMLError as error:
        into.half(f"the YAML breaks: {str(error).splitlines()[0]}")
        return True
    entries: list[dict[str, str]] = []
    for item in documents if isinstance(documents, list) else [documents]:
        body: dict[str, Any] = item if isinstance(item, dict) else {}
        entries += [
            {
                "switchname": str(switch.get("switch", "")),
                "switches": str(switch.get("children") or ""),
                "nodes": str(switch.get("nodes") or ""),
            }
            for switch in (body.get("tree") or {}).get("switches") or ()
        ]
        block = body.get("block") or {}
        entries += [
            {"blockname": str(b.get("block", "")), "nodes": str(b.get("nodes") or "")}
            for b in block.get("blocks") or ()
        ]
        if block.get("block_sizes"):
            entries.append({"blocksizes": ",".join(map(str, block["block_sizes"]))})
    if not entries:
        return False
    if any("blockname" in entry for entry in entries):
        _blocks(entries, into)
    else:
        _switches(entries, into)
    return True
