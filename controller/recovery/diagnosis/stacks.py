"""Stacks of all ranks (`py-spy dump`), grouped: the one that stands elsewhere than all others."""

import re
from collections.abc import Mapping
from typing import Final

_THREAD: Final = re.compile(r'^Thread \S+ \([^)]*\)(?:: "(?P<name>[^"]*)")?\s*$')
_FRAME: Final = re.compile(r"^ {4}(?P<function>.+?) \((?P<file>[^()]*?)(?::\d+)?\)\s*$")
DEEPEST: Final = 6
"""Frames that are compared, the innermost."""


def main_stack(text: str) -> tuple[str, ...]:
    """The innermost frames of the main thread (of the first one that is named when none is), the innermost first;
    empty when the text is no such dump."""
    found: dict[str, list[str]] = {}
    thread = ""
    for line in text.splitlines():
        if match := _THREAD.match(line):
            thread = match["name"] or f"thread {len(found)}"
            found.setdefault(thread, [])
        elif thread and (frame := _FRAME.match(line)):
            found[thread].append(f"{frame['function']} ({frame['file']})")
    stack = found.get("MainThread") or next(iter(found.values()), [])
    return tuple(stack[:DEEPEST])


def odd_rank(stacks: Mapping[int, tuple[str, ...]]) -> tuple[int, str] | None:
    """(rank, its innermost frame) when exactly one of at least three ranks stands elsewhere than all the others."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for rank, stack in sorted(stacks.items()):
        if stack:
            groups.setdefault(stack, []).append(rank)
    alone = [(ranks[0], stack[0]) for stack, ranks in groups.items() if len(ranks) == 1]
    total = sum(len(ranks) for ranks in groups.values())
    return alone[0] if len(groups) == 2 and len(alone) == 1 and total > 2 else None
