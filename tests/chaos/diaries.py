"""What the shims wrote about every worker of a cluster, and whether it may have been so."""

from pathlib import Path
from typing import NamedTuple

from agents.runtime.diary import read


class Life(NamedTuple):
    """From the moment a worker may have had live ranks until all were confirmed dead, on CLOCK_BOOTTIME."""

    attempt: str
    epoch: int
    node: str
    began: float
    ended: float | None


def lives(agents: Path) -> list[Life]:
    """All workers that were ever told to go, of all nodes."""
    found = []
    for path in [*agents.glob("*/attempts/*/diary.jsonl"), *agents.glob("*/diaries/*.jsonl")]:
        node = path.relative_to(agents).parts[0]
        shim, began, ended = None, None, None
        for event in read(path):
            match event["event"]:
                case "shim":
                    shim = event
                case "go":
                    began = event["t"]
                case "dead" | "vanished":
                    ended = event["t"]
        if shim is not None and began is not None:
            found.append(Life(shim["attempt"], shim["epoch"], node, began, ended))
    return sorted(found, key=lambda life: (life.epoch, life.node))


def overlaps(found: list[Life]) -> list[str]:
    """Pairs of attempts of one restart scope that may have had ranks alive at the same time."""
    return [
        f"epoch {old.epoch} on {old.node} lived until {old.ended}, epoch {new.epoch} began on {new.node} at {new.began}"
        for old in found
        for new in found
        if new.epoch > old.epoch and (old.ended is None or old.ended > new.began)
    ]
