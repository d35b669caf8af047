"""`python -m controller.simulate`: a trace on a cluster, for capacity planning. Needs no cluster of its own.

The question is one JSON object on standard input (`Question`); the report goes to standard output, what is wrong with rows
to standard error. Ends with 0, or with 1 when a file cannot be used.
"""

import csv
import gzip
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml
from msgspec import Struct

from controller.scheduling.index import ClusterIndex, build
from controller.simulation.blueprint import BadBlueprint, from_document
from controller.simulation.outlook import run
from controller.simulation.pages import picture, report
from controller.simulation.trace import BrokenRow, Kinds, TraceJob, missing_columns, read
from controller.simulation.whatif import Unfit, WhatIf, changed

SHOWN = 20
ROWS = 5_000_000


class Question(Struct, forbid_unknown_fields=True):
    """`cluster` is a file, or the document itself."""

    trace: str
    cluster: str | dict[str, Any]
    change: WhatIf | None = None
    on_error: Literal["skip", "stop"] = "stop"
    step: float = 0.0
    json: bool = False
    plot: str = ""


class Unusable(Exception):
    """A file that cannot be used; the sentence says why."""


def main() -> int:
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    try:
        if question.plot:
            _matplotlib()
        index = cluster(question.cluster)
        variants = {"today": index} | variant(index, question.change)
        jobs, broken = trace(question.trace, index, stop=question.on_error == "stop")
        found = {name: run(one, jobs, step=question.step, progress=_progress(name)) for name, one in variants.items()}
        if question.plot:
            picture(found, question.plot)
    except (Unusable, Unfit, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    if question.json:
        whole = {"trace": question.trace, "jobs": len(jobs), "broken": broken, "outlook": found}
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(whole)).decode() + "\n")
    else:
        sys.stdout.write(report(found, skipped=len(broken)) + "\n")
    return 0


def cluster(source: str | dict[str, Any]) -> ClusterIndex:
    """Raises Unusable, OSError."""
    name = source if isinstance(source, str) else "the live cluster"
    try:
        document = yaml.safe_load(Path(source).read_text()) if isinstance(source, str) else source
        made = from_document(document)
    except (yaml.YAMLError, UnicodeDecodeError, BadBlueprint) as error:
        raise Unusable(f"{name}: {' '.join(str(error).split())}") from None
    return build(made.records, levels=made.levels)


def variant(index: ClusterIndex, change: WhatIf | None) -> dict[str, ClusterIndex]:
    """The cluster with the change, where one is asked for. `like` may name a group of nodes. Raises Unfit."""
    if change is None:
        return {}
    if change.like and change.like not in index.nodes and f"{change.like}-0" in index.nodes:
        change = msgspec.structs.replace(change, like=f"{change.like}-0")
    return {"changed": changed(index, change, 0.0)}


def trace(name: str, index: ClusterIndex, *, stop: bool) -> tuple[list[TraceJob], list[BrokenRow]]:
    """The jobs of a file, and its broken rows, which are told at once. Raises Unusable, OSError."""
    most = {kind: int(index.total.kind(kind).max()) for kind in index.total.devices}
    jobs, broken = read(rows(Path(name)), Kinds({k: n for k, n in most.items() if n}, frozenset(index.queues)))
    if broken:
        told = "\n".join(f"{name}: {row}" for row in broken[:SHOWN])
        more = f"\nand {len(broken) - SHOWN} more" if len(broken) > SHOWN else ""
        if stop:
            hint = "--on-error skip goes on without them"
            raise Unusable(f"{len(broken)} of {len(jobs) + len(broken)} rows are broken; {hint}\n{told}{more}")
        sys.stderr.write(f"skipped {len(broken)} of {len(jobs) + len(broken)} rows\n{told}{more}\n")
    if not jobs:
        raise Unusable(f"{name}: it has no jobs")
    return jobs, broken


def rows(path: Path) -> Iterator[tuple[int, Any]]:
    """(line, row) of CSV with a first line of names, or of JSON lines where the name ends with .jsonl; either may be
    gzipped. Raises Unusable, OSError."""
    plain = path.name.removesuffix(".gz")
    with (
        gzip.open(path, "rb") if plain != path.name else path.open("rb") as raw,
        io.TextIOWrapper(raw, "utf-8-sig", "replace", newline="") as text,
    ):
        yield from _json_lines(text) if plain.endswith((".jsonl", ".ndjson")) else _csv(path, text)


def _csv(path: Path, text: io.TextIOWrapper) -> Iterator[tuple[int, Any]]:
    reader = csv.DictReader(text, skipinitialspace=True)
    columns = [name.strip() for name in reader.fieldnames or () if name]
    if lacking := missing_columns(columns):
        raise Unusable(f"{path}: no column for {' and '.join(lacking)}; its columns are {', '.join(columns) or 'none'}")
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield reader.line_num, f"{error}"
            continue
        yield reader.line_num, {name.strip() if name else name: value for name, value in row.items()}


def _json_lines(text: io.TextIOWrapper) -> Iterator[tuple[int, Any]]:
    for line, words in enumerate(text, 1):
        if words.strip():
            try:
                yield line, msgspec.json.decode(words)
            except msgspec.DecodeError:
                yield line, words.strip()


def _progress(name: str) -> Any:
    """A line on a terminal, at most once in a hundredth of the way."""
    told = -1

    def tell(done: int, everything: int) -> None:
        nonlocal told
        share = 100 * done // max(everything, 1)
        if share != told:
            told = share
            end = "\r" if share < 100 else "\n"
            sys.stderr.write(f"{name}: {done} of {everything} jobs have ended ({share} %){end}")
            sys.stderr.flush()

    return tell if sys.stderr.isatty() else lambda _done, _all: None


def _matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise Unusable("--plot needs matplotlib: pip install 'muster-cluster[plots]'") from None


if __name__ == "__main__":
    sys.exit(main())
