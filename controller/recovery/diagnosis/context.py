"""What a log shows beside its error: that the job had steps, was still preparing, or had finished."""

import re
from collections.abc import Iterable
from typing import Final

from controller.recovery.diagnosis.types import Stream

_STEP: Final = re.compile(
    r"\b(global_?)?(step|iter(ation)?)\b\s*[:=/#]?\s*\[?\d+|\bepoch\b\D{0,3}\d+[^\n]*\bloss\b|'loss': |\bloss\s*[:=]\s*\d",
    re.IGNORECASE,
)
_PREPARING: Final = re.compile(
    r"(tokeniz|\bMap\b|Filter|Generating \w+ split|Grouping texts|pre-?process|Loading checkpoint shards|Compiling|"
    r"Packing|building (the )?(index|dataset))[^\n]*?(\d{1,2})%",
    re.IGNORECASE,
)
_DONE: Final = re.compile(
    r"\btraining (is |was |has )?(successfully )?(completed?|finished|done|ended)\b|\b(finished|completed|done) (the )?training|"
    r"'?train_runtime'?\s*[:=]|Trainer\.fit` stopped: `max_|exiting program at iteration|max_steps[^\n]*reached|"
    r"saved? (the )?final (checkpoint|model)|\ball (epochs|steps) (done|finished|completed?)|job (done|finished|completed) successfully|"
    r"\bsuccessfully (finished|completed)|run (finished|complete)d?\b",
    re.IGNORECASE,
)
_LAST: Final = re.compile(
    r"\[Rank (\d+)\][^\n]*?last enqueued (?:NCCL )?work: (\d+), last completed (?:NCCL )?work: (\d+)", re.IGNORECASE
)
_WORK: Final = re.compile(
    r"\[Rank (\d+)\][^\n]*?SeqNum=(\d+), OpType=(\w+), NumelIn=(\d+), NumelOut=(\d+)", re.IGNORECASE
)


def stepped(streams: Iterable[Stream]) -> bool:
    return any(_STEP.search(line.text) for stream in streams for line in stream.lines)


def preparing(streams: Iterable[Stream]) -> Stream | None:
    """The stream that was still at its preparation when its lines end."""
    for stream in streams:
        last = next((match for line in reversed(stream.lines) if (match := _PREPARING.search(line.text))), None)
        if last and not _STEP.search(stream.text):
            return stream
    return None


def finished_at(stream: Stream) -> int | None:
    """The number of the line that says that the work was done."""
    return next((line.number for line in reversed(stream.lines) if _DONE.search(line.text)), None)


def laggard(text: str) -> int | None:
    """The one rank whose collectives are behind all others', out of what the ranks' watchdogs printed."""
    last = {int(rank): int(enqueued) for rank, enqueued, _ in _LAST.findall(text)}
    behind = [rank for rank, number in last.items() if number == min(last.values())]
    return behind[0] if len(last) > len(behind) == 1 and len(last) > 2 else None


def diverged(text: str) -> str:
    """Ranks that waited in different collectives under the same number, in words; empty when there are none."""
    seen: dict[str, dict[tuple[str, str], str]] = {}
    for rank, number, what, ins, _ in _WORK.findall(text):
        seen.setdefault(number, {}).setdefault((what, ins), rank)
    for number, kinds in seen.items():
        if len(kinds) > 1:
            return f"in collective {number} " + " but ".join(
                f"rank {rank} called {what} of {size}" for (what, size), rank in kinds.items()
            )
    return ""
