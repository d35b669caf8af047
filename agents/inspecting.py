"""`muster-agent inspect`: what the agent sees of this machine, or reads from a recorded output.

    muster-agent inspect [--json]
    muster-agent inspect --capture KIND FILE      FILE may be - for standard input; prints JSON

Exit status 0: told, whatever was found. 2: wrong usage, or FILE cannot be read.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from agents.devices.captures import KINDS, read_capture
from muster.inspection import Inspection, to_json
from muster.plaintext import LIMIT


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="muster-agent inspect", description="Tell what the agent sees of this machine."
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument(
        "--capture", nargs=2, metavar=("KIND", "FILE"), help=f"read a recorded output: {', '.join(KINDS)}"
    )
    chosen = parser.parse_args(words)
    if chosen.capture is None:
        from agents.devices import live

        found = live.inspect()
        sys.stdout.write(to_json(found).decode() + "\n" if chosen.json else table(found))
        return 0
    kind, name = chosen.capture
    if kind not in KINDS:
        sys.stderr.write(f"muster-agent: no kind {kind!r}; kinds are {', '.join(KINDS)}\n")
        return 2
    try:
        raw = _read(name)
    except OSError as error:
        sys.stderr.write(f"muster-agent: {name}: {error.strerror or error}\n")
        return 2
    sys.stdout.write(to_json(read_capture(kind, raw)).decode() + "\n")
    return 0


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(LIMIT + 1)
    with Path(name).open("rb") as file:
        return file.read(LIMIT + 1)


def table(found: Inspection) -> str:
    """Devices, NICs and problems for people."""
    lines = [f"node  {found.node.details.get('cores')} cores, {found.node.details.get('memory_mib')} MiB"]
    rows = [("DEVICE", "VENDOR", "MODEL", "MEMORY", "NUMA", "BUS", "GROUP", "HEALTH", "NICS")]
    rows += [
        (
            str(device.index),
            _text(device.vendor),
            _text(device.model),
            f"{device.memory_mib} MiB" if device.memory_mib else "-",
            _text(device.numa),
            _text(device.bus),
            _text(device.group),
            {True: "ok", False: "bad", None: "unknown"}[device.healthy],
            ",".join(device.nearest_nics) or "-",
        )
        for device in found.devices
    ]
    lines += ["", *_columns(rows)] if found.devices else ["no devices"]
    nics = [("NIC", "LINK", "STATE", "GBIT/S", "NUMA")]
    nics += [(n.name, _text(n.link_layer), _text(n.state), _text(n.rate_gbps), _text(n.numa)) for n in found.nics]
    lines += ["", *_columns(nics)] if found.nics else ["no RDMA NICs"]
    problems = [*found.problems, *(f"device {d.index}: {problem}" for d in found.devices for problem in d.problems)]
    lines += ["", "problems", *(f"  {problem}" for problem in problems)] if problems else []
    return "\n".join(lines) + "\n"


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    sizes = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(size) for cell, size in zip(row, sizes, strict=True)).rstrip() for row in rows]
