"""What a training program tells Muster: its step and loss, its phase, its checkpoints.

    import muster.report

    path = muster.report.resume_from()            # the checkpoint to start from, or None
    muster.report.progress(step=120, loss=0.31)
    muster.report.checkpoint("/ckpt/step-000120")

Standard library only. Outside Muster (no $MUSTER_REPORT) every call does nothing, and no call ever
raises into the training. Each report is one JSON line, written by one appending write of less than
4 KiB, so that the ranks of a worker may share the file:

    {"time": 1733000000.25, "rank": 0, "step": 120, "loss": 0.31}
    {"time": 1733000000.31, "rank": 0, "checkpoint": "/ckpt/step-000120"}
    {"time": 1733000000.40, "rank": 0, "phase": "save"}

`time` is UTC seconds; a loss that is not finite is written as "nan", "inf" or "-inf". Programs in other
languages append such lines themselves; `time` and `rank` may be left out. Progress is thinned to one line
in `INTERVAL` seconds; the newest is kept back and written before the next line of another sort and at exit.
"""

import atexit
import json
import math
import os
import threading
import time
from typing import Final

INTERVAL: Final = 0.05
MAX_LINE: Final = 4096

_lock = threading.Lock()
_kept: dict[str, object] | None = None
_written_at = -math.inf


def progress(step: int, loss: float | None = None, *, seconds: float | None = None, **more: object) -> None:
    """The step that has been completed, its loss, and other numbers or short texts by name. `seconds`: of this rank's
    own work at it, without waiting for other ranks: by them a slow rank is told from those that wait for it."""
    try:
        line: dict[str, object] = {"step": int(step)}
        if loss is not None:
            line["loss"] = _plain(loss)
        if seconds is not None:
            line["seconds"] = _plain(seconds)
        _send({**line, **{name: _plain(value) for name, value in more.items()}}, thin=True)
    except Exception:  # a report is never worth a training step
        return


def checkpoint(path: str | os.PathLike[str]) -> None:
    """A checkpoint that is complete at `path`, a file or a folder."""
    try:
        _send({"checkpoint": os.path.abspath(os.fspath(path))})
    except Exception:
        return


def phase(name: str) -> None:
    """What the program does now, e.g. "load", "train", "save", "evaluate": each has its own pace."""
    try:
        _send({"phase": str(name)[:64]})
    except Exception:
        return


def resume_from() -> str | None:
    """The path of the checkpoint to start from; None at a first start and outside Muster."""
    return os.environ.get("MUSTER_RESUME_FROM") or None


def checkpoint_dir() -> str | None:
    """The folder in which this job keeps its checkpoints; None when its manifest names none and outside Muster."""
    return os.environ.get("MUSTER_CHECKPOINT_DIR") or None


def _number(value: object) -> float | str:
    number = float(value)  # type: ignore[arg-type]  # also NumPy's and PyTorch's scalars
    return number if math.isfinite(number) else str(number)


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return value[:256]
    try:
        return _number(value)
    except (TypeError, ValueError):
        return str(value)[:256]


def _send(line: dict[str, object], *, thin: bool = False) -> None:
    """Write `line`, or keep it back when it comes too soon after the last one."""
    global _kept, _written_at
    target = os.environ.get("MUSTER_REPORT")
    if not target:
        return
    rank = os.environ.get("RANK", "")
    stamped = {"time": round(time.time(), 6), "rank": int(rank) if rank.isdigit() else None, **line}
    with _lock:
        now = time.monotonic()
        if thin and now - _written_at < INTERVAL:
            _kept = stamped
            return
        lines = [stamped] if thin or _kept is None else [_kept, stamped]
        _kept, _written_at = None, now
        for each in lines:
            _append(target, each)


def _append(target: str, line: dict[str, object]) -> None:
    data = _encoded(line)
    if len(data) >= MAX_LINE:
        data = _encoded({name: line[name] for name in ("time", "rank", "step", "loss") if name in line})
    descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def _encoded(line: dict[str, object]) -> bytes:
    return (json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n").encode()


def _flush() -> None:
    global _kept
    try:
        with _lock:
            if _kept is not None:
                _append(os.environ["MUSTER_REPORT"], _kept)
                _kept = None
    except Exception:
        return


def _after_fork() -> None:
    """A child has its parent's lock and kept line: it starts with its own."""
    global _lock, _kept
    _lock, _kept = threading.Lock(), None


atexit.register(_flush)
os.register_at_fork(after_in_child=_after_fork)
