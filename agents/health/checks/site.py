"""A site's own checks: every executable of one folder, as node-problem-detector's custom plug-ins are.

Exit status 0: all is well. 1: the first line of its output is what is wrong. Anything else, and a run that takes too
long: the check itself is in trouble. A comment in its first 20 lines may say more:

    # muster: severity=error remedy=reboot timeout=20 kind=Licence

Without it a finding is a warning, kind Site. The reason is the file's name in CamelCase.
"""

import os
import re
import stat
from pathlib import Path
from typing import Final

from agents.devices import tool
from agents.health.check import Check, Memory, Scene, wrong
from muster.conditions import Condition, Remedy

TIMEOUT: Final = 10.0
_SAID: Final = re.compile(rb"^\W{0,4}muster:\s*(.*)$", re.MULTILINE)


def site(scene: Scene, memory: Memory) -> list[Condition]:
    found = []
    folder = Path(scene.plugins)
    for path in sorted(folder.iterdir()) if scene.plugins and folder.is_dir() else ():
        if not path.is_file() or not os.access(path, os.X_OK) or path.name.startswith("."):
            continue
        if path.stat().st_mode & stat.S_IWOTH:
            found.append(
                wrong("Site", _reason(path), f"{path} is writable by everyone and was not run", subject=path.name)
            )
        else:
            found += _ask(path)
    return found


def _ask(path: Path) -> list[Condition]:
    wishes = _wishes(path)
    severity, remedy = wishes.get("severity", "warning"), wishes.get("remedy", "none")
    if severity not in ("info", "warning", "error", "fatal") or remedy not in list(Remedy):
        return [_trouble(path, f"its comment says severity={severity} remedy={remedy}, which there is not")]
    try:
        timeout = min(60.0, float(wishes.get("timeout", TIMEOUT)))
    except ValueError:
        return [_trouble(path, f"its comment says timeout={wishes['timeout']}: expected seconds")]
    answer = tool.ask((str(path),), timeout)
    if answer is None or (answer.problem and answer.status is None):
        return [_trouble(path, answer.problem if answer and answer.problem else "cannot be run")]
    line = next(iter(answer.output.decode(errors="replace").strip().splitlines()), "")
    if answer.status == 0:
        return []
    if answer.status != 1:
        return [_trouble(path, f"ended with status {answer.status}: {line}")]
    message = line or f"{path.name} says that something is wrong"
    return [
        wrong(wishes.get("kind", "Site")[:40], _reason(path), message, severity, Remedy(remedy), subject=path.name)  # type: ignore[arg-type]
    ]


def _wishes(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            head = b"".join(file.readline(512) for _ in range(20))
    except OSError:
        return {}
    said = _SAID.search(head)
    words = said.group(1).decode(errors="replace").split() if said else []
    return dict(word.split("=", 1) for word in words if "=" in word)


def _trouble(path: Path, why: str) -> Condition:
    return wrong("CheckFailed", "SiteCheckFailed", f"{path.name}: {why}", "info", subject=path.name)


def _reason(path: Path) -> str:
    return "".join(word.capitalize() for word in re.split(r"[^A-Za-z0-9]+", path.stem) if word)[:60] or "Site"


CHECKS: Final = (Check("site", 60.0, 120.0, site),)
