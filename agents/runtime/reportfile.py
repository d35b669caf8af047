"""What the ranks say of themselves: JSON lines in the file named by MUSTER_REPORT.

Untrusted: lines are bounded, malformed ones are counted and left out, and nothing in them becomes a path that
is opened.

    {"time": 1733000000.25, "rank": 0, "step": 120, "loss": 0.31}    also {"progress": {"step": ..., "loss": ...}}
    {"rank": 0, "checkpoint": "/ckpt/step-120"}                      also {"checkpoint": {"path": ...}}
    {"rank": 0, "phase": "save"}
    {"rank": 0, "measurement": {"name": ..., "value": ..., "unit": ...}}   of a node, by its active check
"""

import json
import math
import os
from pathlib import Path
from typing import Any

from msgspec import Struct

from muster.protocol import ProgressPoint

MAX_LINE = 16 * 1024
MAX_READ = 2**20
MOST_RANKS = 4096
MAX_SKEW = 3600.0
"""Seconds by which a rank's own time may differ from now before it is not believed."""


class Said(Struct, frozen=True):
    """One line. All are None for a line that says nothing new."""

    point: ProgressPoint | None = None
    phase: str = ""
    rank: int | None = None
    checkpoint: str | None = None
    measurement: dict[str, Any] | None = None


def parse_line(line: bytes, now: float) -> Said | None:
    """None when the line is malformed. `now` in UTC seconds."""
    try:
        data = json.loads(line) if len(line) <= MAX_LINE else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict):
        return None
    if "checkpoint" in data:
        path = data["checkpoint"].get("path") if isinstance(data["checkpoint"], dict) else data["checkpoint"]
        return Said(checkpoint=path) if isinstance(path, str) and path else None
    if isinstance(data.get("measurement"), dict):
        return Said(measurement=data["measurement"])
    inner = data.get("progress")
    return _point({**data, **inner} if isinstance(inner, dict) else data, now)


def _point(data: dict[str, Any], now: float) -> Said | None:
    step, at, rank = _integer(data.get("step")), _finite(data.get("time")), _integer(data.get("rank"))
    phase = data["phase"][:64] if isinstance(data.get("phase"), str) else ""
    if step is None or not 0 <= step < 2**63:
        return Said(phase=phase, rank=rank) if phase else None
    if at is None or abs(at - now) > MAX_SKEW:
        at = now
    seconds = _finite(data.get("seconds"))
    return Said(
        point=ProgressPoint(step=step, at=at, rank=rank, loss=_finite(data.get("loss")), phase=phase,
                            seconds=seconds if seconds is not None and seconds >= 0 else None,
                            bad=_not_finite(data.get("loss")))
    )  # fmt: skip


def _not_finite(loss: object) -> str:
    """`nan`, `inf` or `-inf`, as the reporter or JSON's extensions write them."""
    if isinstance(loss, float) and not math.isfinite(loss):
        return str(loss)
    return loss.lower() if isinstance(loss, str) and loss.lower() in ("nan", "inf", "-inf") else ""


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


class ReportReader:
    """Reads on from where it was; a line is taken when it is ended."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._rest = path, 0, b""
        self.malformed = 0
        self._steps: dict[int | None, int] = {}

    def behind(self) -> int:
        """Bytes that have not been read."""
        try:
            return max(0, self._path.stat(follow_symlinks=False).st_size - self._offset)
        except OSError:
            return 0

    def skip(self, keep: int) -> None:
        """Of what has not been read, the oldest goes until at most `keep` bytes are left."""
        left_out = self.behind() - keep
        if left_out > 0:
            self._offset, self._rest = self._offset + left_out, b"\0"  # the line that is cut there is malformed

    def read(self, now: float) -> list[Said]:
        """What is new, at most 1 MiB of it."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            if os.fstat(descriptor).st_size < self._offset:
                self._offset, self._rest = 0, b""
            data = os.pread(descriptor, MAX_READ, self._offset)
        except OSError:
            return []
        finally:
            os.close(descriptor)
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE:
            self._rest = self._rest[: MAX_LINE + 1]  # stays malformed, whatever comes
        said = [parse_line(line, now) for line in lines if line.strip()]
        self.malformed += said.count(None)
        return [self._placed(each, now) for each in said if each is not None]

    def _placed(self, said: Said, now: float) -> Said:
        """A phase that begins is a point at the step that its rank has done last."""
        if said.point is not None:
            if said.point.rank in self._steps or len(self._steps) < MOST_RANKS:
                self._steps[said.point.rank] = said.point.step
            return said
        if not said.phase:
            return said
        step = self._steps.get(said.rank, -1)
        return Said(point=ProgressPoint(step=step, at=now, rank=said.rank, phase=said.phase, mark=True))
