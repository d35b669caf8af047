"""What every benchmark on data shares: its arguments, its way to find data, and one report as a table or as JSON."""

import argparse
import csv
import json
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


class BadInput(Exception):
    """What is wrong with the input, for people: the command ends with it and exit code 2."""


def parser(name: str, text: str, source: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog=f"./run bench {name}", description=text, epilog=f"Where the data can be had: {source}"
    )
    made.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder of the public traces")
    made.add_argument("--json", action="store_true", help="one JSON object on standard output, and nothing else")
    made.add_argument("--plot", type=Path, metavar="FILE.png", help="draw a picture too (needs the extra `plots`)")
    made.add_argument("--policy", action="append", metavar="NAME", help="only these policies (may be repeated)")
    return made


def folder(data: Path, name: str, wanted: str, source: str) -> Path:
    """The folder that holds `wanted`: DIR/NAME or DIR itself."""
    for candidate in (data / name, data):
        if (candidate / wanted).exists():
            return candidate
    raise BadInput(f"{data}: neither {name}/{wanted} nor {wanted} is there. The data can be had from {source}")


def table_of(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a CSV file, which must have these columns. Broken rows are named by their line."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise BadInput(f"{path}: column {missing[0]!r} is missing; found {', '.join(reader.fieldnames or ())}")
            rows = []
            for row in reader:
                if any(row[column] is None for column in columns):
                    raise BadInput(f"{path}:{reader.line_num}: the row is too short")
                rows.append(row)
            return rows
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: not a CSV file in UTF-8 ({error})") from error


def number(path: Path, line: int, row: Mapping[str, str], column: str, least: float = 0.0) -> float:
    """A finite number of a row, at least `least`. `line` counts from 1, the header included."""
    try:
        value = float(row[column])
    except ValueError:
        value = float("nan")
    if not least <= value < float("inf"):
        raise BadInput(f"{path}:{line}: {column} is {row[column]!r}; wanted a number of at least {least:g}")
    return value


def chosen(wanted: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """The policies asked for, in the order of `known`; all of them when none is named."""
    names = list(known)
    for name in wanted or ():
        if name not in names:
            raise BadInput(f"unknown policy {name!r}; known: {', '.join(names)}")
    return [name for name in names if not wanted or name in wanted]


def machine() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "machine": platform.platform(),
        "implementation": platform.python_implementation(),
    }


def aligned(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table for people: the first column to the left, the others to the right."""
    cells = [list(header), *[[_cell(value) for value in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def say(report: Mapping[str, Any], table: str, as_json: bool) -> None:
    print(json.dumps(report) if as_json else table)


class Progress:
    """A line on standard error that rewrites itself, only when a person looks."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done, self.shown = what, total, 0, sys.stderr.isatty()

    def step(self, note: str = "") -> None:
        self.done += 1
        if self.shown:
            bar = "#" * (30 * self.done // max(1, self.total))
            end = "\n" if self.done >= self.total else ""
            print(
                f"\r{self.what} [{bar:<30}] {self.done}/{self.total} {note:<24}", end=end, file=sys.stderr, flush=True
            )


def plotting() -> Any:
    """matplotlib's pyplot for files, or a clear error."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise BadInput("--plot needs matplotlib: pip install 'muster-cluster[plots]'") from error
    return pyplot


def guarded(main: Any) -> None:
    """Run a benchmark's main; bad input ends with its sentence and exit code 2."""
    try:
        main()
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from error
