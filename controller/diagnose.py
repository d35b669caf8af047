"""`python -m controller.diagnose [--json] FILE...`: the diagnosis of logs, without a cluster.

Reads plain and gzipped text, Slurm output, one log per rank, torchrun's log folders, evidence bundles; `-` is standard
input. Ends with 0 when it has read its files, 1 when one cannot be read.
"""

import gzip
import re
import sys
import zlib
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from controller.recovery.diagnosis.diagnose import diagnose
from controller.recovery.diagnosis.flight import Flight, flight
from controller.recovery.diagnosis.report import report
from controller.recovery.diagnosis.streams import bundle, streams
from controller.recovery.diagnosis.types import Diagnosis, Exit, Stream

HEAD = 8 * 2**20
"""Bytes read at the start of a file, and at its end: what lies between is left out."""
GZIP = b"\x1f\x8b"
PICKLE = b"\x80"


def main(words: list[str]) -> int:
    as_json = "--json" in words
    names = [word for word in words if word != "--json"]
    try:
        paths = listed(names)
        flights = recorders(paths)
        found = examine(files([path for path in paths if number_of(path) not in flights]), flights)
    except (OSError, EOFError, zlib.error) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
    else:
        sys.stdout.write(report(found) + "\n")
    return 0


def examine(texts: list[tuple[str, str]], flights: dict[int, Flight] | None = None) -> Diagnosis:
    """(name, text) of each file in, with flight recorders by rank; one diagnosis out."""
    found: list[Stream] = []
    exits: list[Exit] = []
    year = datetime.now(UTC).year
    for name, text in texts:
        if packed := bundle(name, text):
            found += packed[0]
            exits += packed[1]
        else:
            found += streams(name, text, year=year)
    return diagnose(found, exits, flights)


def listed(names: list[str]) -> list[str]:
    """Files as they are named, folders as all files below them."""
    out: list[str] = []
    for name in names:
        path = Path(name)
        out += sorted(str(one) for one in path.rglob("*") if one.is_file()) if path.is_dir() else [name]
    return out


def files(paths: list[str]) -> list[tuple[str, str]]:
    """The texts of files and, for `-`, of standard input."""
    return [
        ("standard input", sys.stdin.buffer.read(2 * HEAD).decode("utf-8", "replace"))
        if path == "-"
        else (path, text(Path(path)))
        for path in paths
    ]


def recorders(paths: list[str]) -> dict[int, Flight]:
    """PyTorch's flight recorder dumps among the files, by the rank that their names end with."""
    out: dict[int, Flight] = {}
    for path in paths:
        rank = number_of(path)
        if rank is None:
            continue
        with Path(path).open("rb") as file:
            data = file.read(2 * HEAD)
        if data[:1] == PICKLE and (one := flight(data)):
            out[rank] = one
    return out


def number_of(path: str) -> int | None:
    """7 for `nccl_trace_rank_7`: the number that a name without suffix ends with."""
    found = re.search(r"(\d+)$", path)
    return int(found[1]) if found else None


def text(path: Path) -> str:
    """Its first and last 8 MiB, unpacked; what is no UTF-8 is replaced."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
        file.seek(0)
        if packed:
            with gzip.open(file) as unpacked:
                return unpacked.read(2 * HEAD).decode("utf-8", "replace")
        head = file.read(HEAD)
        rest = file.seek(0, 2) - len(head)
        file.seek(max(len(head), len(head) + rest - HEAD))
        return (head + file.read(HEAD)).decode("utf-8", "replace")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
