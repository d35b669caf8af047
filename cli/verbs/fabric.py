"""`muster fabric import`: what a description of the fabric tells, and what does not fit."""

import sys
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from cli.errors import Exit, Failure
from cli.output import Column, as_json, say, table
from muster.fabric.capture import FORMATS, import_from
from muster.inspection import Inspection

_FORMS: Final = ("table", "json", "labels")
_COLUMNS: Final = (
    Column("LEVEL", lambda row: row["level"]),
    Column("DOMAINS", lambda row: row["domains"]),
    Column("NODES", lambda row: row["nodes"]),
    Column("SMALLEST", lambda row: row["smallest"]),
    Column("LARGEST", lambda row: row["largest"]),
)


@click.group()
def fabric() -> None:
    """Levels and domains of the fabric."""


@fabric.command("import")
@click.option("--from", "source", required=True, type=click.Choice(list(FORMATS)), help="What FILE is.")
@click.option("-o", "--output", "form", type=click.Choice(_FORMS), default="table", help="How it is printed.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
def read(source: str, form: str, file: Path) -> None:
    """Read FILE (- is standard input): levels, domains, nodes without a place, switches without hosts, parts without a
    common root. With -o labels, one line a node: its name and the labels for its agent (MUSTER_NODE_LABELS)."""
    raw = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    found = import_from(source, raw)
    if not found.fabric.levels and not found.fabric.unplaced:
        why = f": {found.problems[0]}" if found.problems else ""
        raise Failure(f"{file}: no fabric in it{why}", code=Exit.REFUSED)
    if form == "json":
        say(as_json(msgspec.to_builtins(found)))
    elif form == "labels":
        for name, labels in labels_of(found).items():
            say(f"{name}\t{','.join(f'muster.dev/{level}={place}' for level, place in labels.items())}")
    else:
        _report(found)


def labels_of(found: Inspection) -> dict[str, dict[str, str]]:
    """Node -> level -> its one place there. A node that hangs on several (one a rail) gets no label of that level."""
    places: dict[str, dict[str, list[str]]] = {}
    for level in found.fabric.levels:
        for domain, nodes in found.fabric.domains.get(level, {}).items():
            for node in nodes:
                places.setdefault(node, {}).setdefault(level, []).append(domain)
    return {
        node: {level: domains[0] for level, domains in levels.items() if len(set(domains)) == 1}
        for node, levels in places.items()
    }


def _report(found: Inspection) -> None:
    rows: list[dict[str, Any]] = []
    for level in found.fabric.levels:
        sizes = [len(set(nodes)) for nodes in found.fabric.domains.get(level, {}).values()]
        nodes = {node for nodes in found.fabric.domains.get(level, {}).values() for node in nodes}
        smallest, largest = min(sizes, default=0), max(sizes, default=0)
        rows.append(
            {"level": level, "domains": len(sizes), "nodes": len(nodes), "smallest": smallest, "largest": largest}
        )
    if rows:
        say(table(_COLUMNS, rows))
    for title, items in (
        ("Not placed", found.fabric.unplaced),
        ("Switches without hosts", found.node.details.get("switches_without_hosts") or []),
        ("Problems", found.problems),
    ):
        if items:
            say(f"\n{title}:")
            for item in items[:20]:
                say(f"  {item}")
            if len(items) > 20:
                say(f"  and {len(items) - 20} more")
    if not found.complete:
        say("\nThe file was read in part.")
