"""What is read, and what comes out."""

from typing import Literal

from msgspec import Struct

Action = Literal[
    "record", "retry", "restart", "replace", "drain", "hold", "fail", "previous_checkpoint", "original_world_size"
]


class Line(Struct, frozen=True):
    """One printed line without its prefix. `number` counts from 1 in its file; `at` is UTC seconds when it has a date."""

    number: int
    text: str
    at: float | None = None


class Stream(Struct, frozen=True, kw_only=True):
    """What one process, or one machine's kernel, printed. `rank` and `node` as far as something names them."""

    file: str
    lines: tuple[Line, ...]
    rank: int | None = None
    node: str = ""

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)


class Exit(Struct, frozen=True, kw_only=True):
    """A process that somebody saw ending: its launcher, its scheduler or an agent. `order`: 0 is the first seen."""

    rank: int | None = None
    node: str = ""
    code: int | None = None
    signal: int | None = None
    oom: bool = False
    order: int = 0
    said: str = ""
    file: str = ""
    number: int = 0
    at: float | None = None
    root: bool = False


class Diagnosis(Struct, frozen=True, kw_only=True):
    """`certainty` is one of confirmed, likely, possible. `decided_by` quotes the evidence, `where` is its `file:line`."""

    category: str
    node_at_fault: bool | None
    culprit_rank: int | None
    action: Action
    certainty: str
    why: str
    culprit_nodes: tuple[str, ...] = ()
    decided_by: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    advice: str = ""
