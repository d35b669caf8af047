"""`python -m controller.diagnose [--json] FILE...`: the diagnosis of logs, without a cluster.

Reads plain and gzipped text, Slurm output, one log per rank, torchrun's log folders, evidence bundles; `-` is standard
input. Ends with 0 when it has read its files, 1 when one cannot be read.
"""

import gzip
import sys
import zlib
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from controller.recovery.diagnosis.diagnose import diagnose
from controller.recovery.diagnosis.report import report
from controller.recovery.diagnosis.streams import bundle, streams
from controller.recovery.diagnosis.types import Diagnosis, Exit, Stream

HEAD = 8 * 2**20
"""Bytes read at the start of a file, and at its end: what lies between is left out."""
GZIP = b"\x1f\x8b"


def main(words: list[str]) -> int:
    as_json = "--json" in words
    names = [word for word in words if word != "--json"]
    try:
        found = examine(files(names))
    except (OSError, EOFError, zlib.error) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
    else:
        sys.stdout.write(report(found) + "\n")
    return 0


def examine(texts: list[tuple[str, str]]) -> Diagnosis:
    """(name, text) of each file in, one diagnosis out."""
    found: list[Stream] = []
    exits: list[Exit] = []
    year = datetime.now(UTC).year
    for name, text in texts:
        if packed := bundle(name, text):
            found += packed[0]
            exits += packed[1]
        else:
            found += streams(name, text, year=year)
    return diagnose(found, exits)


def files(names: list[str]) -> list[tuple[str, str]]:
    """The texts of files, of every file below a folder, and of standard input."""
    out: list[tuple[str, str]] = []
    for name in names:
        if name == "-":
            out.append(("standard input", sys.stdin.buffer.read(2 * HEAD).decode("utf-8", "replace")))
            continue
        path = Path(name)
        paths = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
        out += [(str(one), text(one)) for one in paths]
    return out


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
