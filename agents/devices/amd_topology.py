"""Topology tables of `amd-smi topology` (by PCI address) and `rocm-smi --showtopo` (by GPU number)."""

import re
from typing import Any, Final, NamedTuple

from agents.devices.matrix import components
from muster.inspection import Inspection

_TITLES: Final = (
    ("access", re.compile(r"^ACCESS TABLE:|Accessibility between two GPUs")),
    ("weight", re.compile(r"^WEIGHT TABLE:|Weight between two GPUs")),
    ("hops", re.compile(r"^HOPS TABLE:|Hops between two GPUs")),
    ("link_type", re.compile(r"^LINK TYPE TABLE:|Link Type between two GPUs")),
    ("bandwidth", re.compile(r"^NUMA BW TABLE:")),
    ("other", re.compile(r"^[A-Z][A-Z -]+ TABLE:|^=+ .* =+$|^Legend:")),
)
_LABEL: Final = re.compile(r"(?:GPU\d+|(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)$")


class Grid(NamedTuple):
    columns: list[str]
    rows: dict[str, list[str]]


def read(text: str, into: Inspection) -> bool:
    """False when there is no such table."""
    grids: dict[str, Grid] = {}
    title = ""
    for line in text.split("\n"):
        named = next((name for name, pattern in _TITLES if pattern.search(line)), None)
        words = line.split()
        if named:
            title = named
        elif words and title and title != "other":
            if all(_LABEL.match(word) for word in words):
                grids.setdefault(title, Grid(words, {}))
            elif _LABEL.match(words[0]) and title in grids:
                if len(words) == len(grids[title].columns) + 1:
                    grids[title].rows[words[0]] = words[1:]
                else:
                    into.half(f"the {title} row of {words[0]} is torn")
    if not grids:
        return False
    _whole(text, grids, into)
    _devices(grids, into)
    return True


def _whole(text: str, grids: dict[str, Grid], into: Inspection) -> None:
    wanted = ("access", "weight", "hops", "link_type") if "ACCESS TABLE" in text else ("weight", "hops", "link_type")
    missing = [name for name in wanted if name not in grids]
    if missing:
        into.half(f"tables are missing: {', '.join(missing)}")
    for name, grid in grids.items():
        if set(grid.columns) != set(grid.rows):
            into.half(f"the {name} table has {len(grid.rows)} of {len(grid.columns)} rows")


def _devices(grids: dict[str, Grid], into: Inspection) -> None:
    labels = next(iter(grids.values())).columns
    number = {label: int(label[3:]) if label.startswith("GPU") else i for i, label in enumerate(labels)}
    for label, place in number.items():
        device = into.device(place)
        device.vendor = "amd"
        device.bus = None if label.startswith("GPU") else label
    facts: dict[tuple[int, int], dict[str, Any]] = {}
    for name, grid in grids.items():
        for label, cells in grid.rows.items():
            for other, cell in zip(grid.columns, cells, strict=True):
                if label in number and other in number and label != other:
                    facts.setdefault((number[label], number[other]), {})[name] = _cell(name, cell)
    for (one, two), known in sorted(facts.items()):
        into.device(one).details.setdefault("links", {})[str(two)] = known
    for name, key in (
        ("weight", "weight"),
        ("hops", "hops"),
        ("link_type", "link"),
        ("bandwidth", "bw_mbps"),
        ("access", "p2p_access"),
    ):
        values = [known[name] for known in facts.values() if name in known]
        if values and all(value == values[0] for value in values):
            into.node.details[key] = values[0]
    into.groups = components(number.values(), lambda a, b: facts.get((a, b), {}).get("link_type") == "XGMI")
    for group, members in enumerate(into.groups):
        for member in members:
            into.device(member).group = group
    if into.groups and len(into.groups[0]) == len(number):
        inside = [facts.get((a, b), {}).get("link_type") for a in number.values() for b in number.values() if a != b]
        into.node.details["all_to_all"] = all(kind == "XGMI" for kind in inside)


def _cell(name: str, cell: str) -> Any:
    if name == "access":
        return cell == "ENABLED"
    if span := re.fullmatch(r"(\d+)-(\d+)", cell):
        return [int(span.group(1)), int(span.group(2))]
    return int(cell) if cell.isdigit() else None if cell == "N/A" else cell
