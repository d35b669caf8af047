"""Where a text shows which kind.

The order is the order of trust where one text shows several kinds: a line that names a cause outranks one that
names an effect. Patterns match kinds of messages (an exception class, an errno, a tool's fixed words), never one
program's sentence.
"""

import re
from collections import deque
from typing import Final

from msgspec import Struct

from controller.recovery.catalogue import machine, peers, program
from controller.recovery.kinds import Kind as Kind
from controller.recovery.kinds import Signature as Signature

SIGNATURES: Final[tuple[Signature, ...]] = (
    *machine.DEVICE, *machine.SETUP, *machine.DISK, *machine.MEMORY, *machine.SCHEDULER, *program.CHECKPOINTS, *machine.STORAGE,
    *program.OUTSIDE, *program.NUMBERS, *peers.TEARDOWN, *peers.SETUP[:3], *machine.CONTAINER, *peers.SETUP[3:], *peers.PEERS,
    *program.CODE,
)  # fmt: skip

WARNING: Final = re.compile(
    r"^.*(?:\[W\d{3,4} |\bW\d{4} \d\d:\d\d|\b\w*Warning: |warnings\.warn\(|\bWARNING\b|\[W [\w.]+:\d+\]).*$",
    re.MULTILINE,
)
"""Lines by which a library says that it goes on. A `NCCL WARN` is none of them: NCCL warns before it gives up."""
_STILL_TELLS: Final = re.compile(r"address already in use|EADDRINUSE", re.IGNORECASE)


class Hit(Struct, frozen=True):
    """Where a text shows a kind: the last such line, and the position of the match; `rank` is one that it blames."""

    signature: Signature
    line: str
    position: int
    rank: int | None = None

    @property
    def kind(self) -> Kind:
        return self.signature.kind

    @property
    def category(self) -> str:
        """The finest name of what happened."""
        return self.signature.category or str(self.kind)


def hits(text: str) -> list[Hit]:
    """All kinds that `text` shows, most trusted first."""
    text = without_warnings(text)
    found = ((signature, _last(signature.pattern, text)) for signature in SIGNATURES)
    return [Hit(one, line_at(text, match.start()), match.start(), _rank(match)) for one, match in found if match]


def without_warnings(text: str) -> str:
    return WARNING.sub(lambda match: match[0] if _STILL_TELLS.search(match[0]) else "", text)


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(iter(deque(pattern.finditer(text), maxlen=1)), None)


def _rank(match: re.Match[str]) -> int | None:
    named = (value for name, value in match.groupdict().items() if name.startswith("rank") and value)
    return next((int(value) for value in named), None)


def line_at(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)].strip()
    return line if len(line) <= 300 else line[:297] + "..."
