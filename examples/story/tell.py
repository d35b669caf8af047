"""Telling the story: lines with the time, claims that are checked, waits that say what they wait for."""

import sys
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 180.0
"""Seconds that any single thing may take; a slow machine needs a lot, a healthy one a fraction."""


class StoryFailed(Exception):
    """The story cannot go on: what it waited for did not come."""


class Narrator:
    """Prints what happens, and keeps count of what turned out untrue."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.held, self.broken = 0, list[str]()
        fancy = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        self._yes, self._no = ("✓", "✗") if fancy else ("ok:", "NOT TRUE:")

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def chapter(self, title: str) -> None:
        print(f"\n{title}", flush=True)

    def claim(self, true: bool, text: str) -> None:
        """A claim of the story, checked just now."""
        if true:
            self.held += 1
            print(f"           {self._yes} {text}", flush=True)
        else:
            self.broken.append(text)
            print(f"           {self._no} {text}", flush=True)

    def show(self, text: str) -> None:
        """Output of a command, set off from the story."""
        print("\n".join(f"    | {line}" for line in text.rstrip().splitlines()), flush=True)


def until(what: str, look: Callable[[], T | None], patience: float = PATIENCE, every: float = 0.1) -> T:
    """The first value of `look()` that is neither None nor False. Raises StoryFailed when it does not come."""
    deadline = time.monotonic() + patience
    while True:
        found = look()
        if found is not None and found is not False:
            return found
        if time.monotonic() > deadline:
            raise StoryFailed(f"waited {patience:.0f} s in vain for {what}")
        time.sleep(every)


def listed(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else "nothing"
