"""A table of places: a column `node` and one column for each level, outermost first."""

import csv

from muster.inspection import Inspection


def read(text: str, into: Inspection) -> bool:
    """False when the first line is no such header."""
    rows = [row for row in csv.reader(text.split("\n"), skipinitialspace=True) if row and not row[0].startswith("#")]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    if "node" not in header or len(header) < 2:
        return False
    at = header.index("node")
    levels = [name for name in header if name != "node"]
    if len(set(header)) != len(header) or "" in header:
        into.half("the header has empty or equal names")
        return True
    into.fabric.levels = levels
    into.fabric.domains = {level: {} for level in levels}
    seen: set[str] = set()
    for number, row in enumerate(rows[1:], start=2):
        cells = [cell.strip() for cell in row]
        if len(cells) != len(header) or not cells[at]:
            into.half(f"row {number} has {len(cells)} of {len(header)} cells or no node")
            continue
        node = cells[at]
        if node in seen:
            into.note(f"node {node} is there twice: only the first counts")
            continue
        seen.add(node)
        places = dict(zip(header, cells, strict=True))
        if not any(places[level] for level in levels):
            into.fabric.unplaced.append(node)
        for level in levels:
            if places[level]:
                into.fabric.domains[level].setdefault(places[level], []).append(node)
    into.node.details |= {"nodes": len(seen)}
    return True
