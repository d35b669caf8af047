"""One file's text as the streams of the processes that wrote it."""

import re
from typing import Final

import msgspec

from controller.recovery.diagnosis.prefixes import date, labelled, mark, node_of_file, rank_of_file
from controller.recovery.diagnosis.types import Exit, Line, Stream
from muster.evidence import Evidence, Source

LONGEST: Final = 2000
"""Characters of one line that are read: a dumped tensor is no evidence."""
LINES: Final = 20_000
"""Lines of one file that are read: a quarter at its start, the rest at its end."""
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def streams(file: str, text: str, *, year: int) -> list[Stream]:
    """The unprefixed lines are one stream, those of each rank or named process another."""
    numbered = list(enumerate(_ANSI.sub("", text.replace("\r\n", "\n")).replace("\r", "\n").split("\n"), start=1))
    if len(numbered) > LINES:
        numbered = numbered[: LINES // 4] + numbered[-LINES * 3 // 4 :]
    label = labelled([line for _, line in numbered])
    whose: dict[tuple[int | None, str, str], list[Line]] = {}
    at: float | None = None
    for number, raw in numbered:
        said = mark(raw[:LONGEST], label=label)
        at = date(said.text, year) or at
        whose.setdefault((said.rank, said.node, said.process), []).append(Line(number, said.text, at))
    rank, node = rank_of_file(file), node_of_file(file)
    return [
        Stream(file=file, lines=tuple(lines), rank=rank if key[0] is None else key[0], node=key[1] or node)
        for key, lines in whose.items()
    ]


def bundle(file: str, text: str) -> tuple[list[Stream], list[Exit]] | None:
    """An evidence bundle: a JSON list, an object with `evidence`, or one JSON object a line. None when it is none."""
    items = _evidence(text)
    if items is None:
        return None
    found: list[Stream] = []
    exits: list[Exit] = []
    for order, item in enumerate(sorted(items, key=lambda one: one.at)):
        if item.source is Source.EXIT:
            exits.append(_exit(file, item, order))
        elif item.text:
            lines = tuple(Line(n, line[:LONGEST], item.at) for n, line in enumerate(item.text.splitlines(), start=1))
            rank = item.rank if item.source is Source.LOG else None
            found.append(Stream(file=file, lines=lines, rank=rank, node=item.node))
    return found, exits


def _exit(file: str, item: Evidence, order: int) -> Exit:
    code, signal = item.data.get("code"), item.data.get("signal")
    return Exit(
        rank=item.rank, node=item.node, code=code if isinstance(code, int) and not signal else None,
        signal=signal if isinstance(signal, int) and signal else None, oom=item.data.get("oom") is True, order=order,
        said=item.text, file=file, at=item.at,
    )  # fmt: skip


def _evidence(text: str) -> list[Evidence] | None:
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        whole = msgspec.json.decode(text)
        items = whole.get("evidence") if isinstance(whole, dict) and "evidence" in whole else whole
        return msgspec.convert(items if isinstance(items, list) else [items], list[Evidence])
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        return msgspec.json.Decoder(Evidence).decode_lines(text)
    except (msgspec.MsgspecError, RecursionError):
        return None
