"""Programs `muster-NAME` on the PATH are verbs of `muster`, as with kubectl and git."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

OWN = ("muster-agent",)


def program(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """The program of the longest name that the words begin with, and the rest: `muster a b` may be muster-a-b."""
    names: list[str] = []
    for word in words:
        if word.startswith("-"):
            break
        names.append(word.replace("-", "_") if names else word)
    for count in range(len(names), 0, -1):
        name = "muster-" + "-".join(names[:count])
        if name not in OWN and (found := shutil.which(name)):
            return found, list(words[count:])
    return None


def listed() -> list[str]:
    """Their names, sorted."""
    found = set()
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        try:
            names = [one.name for one in Path(folder or ".").iterdir() if one.name.startswith("muster-")]
        except OSError:
            continue
        found |= {name for name in names if name not in OWN and os.access(Path(folder or ".") / name, os.X_OK)}
    return sorted(found)


def execute(path: str, words: Sequence[str]) -> None:
    """In place of this process."""
    sys.stdout.flush()
    os.execv(path, [path, *words])
