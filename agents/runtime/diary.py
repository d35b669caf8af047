"""What a worker's diary says: events in, one `History` out. The diary is the truth; see agents/shims/diary.py.

The agent itself writes into a diary only while no shim has the folder: `refused` (it could not be started)
and `vanished` (its shim was gone; nothing of it is left).
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from muster.protocol import RankExit

ERRNO_PROBLEMS = {2: "NO_SUCH_COMMAND", 20: "NO_SUCH_COMMAND", 8: "NO_SUCH_COMMAND", 13: "PERMISSION", 1: "PERMISSION"}


REPLACED = "replaced by a newer launch template"
"""Why a waiting shim was stopped that is followed by another."""


class Started(Struct, frozen=True):
    """A first-level process: its pid is also its session's. `start` is in clock ticks after boot."""

    process: int
    rank: int | None
    pid: int
    start: int | None


class History(Struct, frozen=True, kw_only=True):
    """A worker so far. `went`: processes may have been started. `over`: nothing of it is alive or ever will be. `dumped`: pids
    of which the kernel has written a core file."""

    boot_id: str = ""
    revision: int = 0
    shim_pid: int | None = None
    ready_at: float | None = None
    went: bool = False
    running_at: float | None = None
    started: tuple[Started, ...] = ()
    exits: tuple[RankExit, ...] = ()
    dumped: tuple[int, ...] = ()
    stopped: str = ""
    over: bool = False
    over_at: float = 0.0
    problem: str = ""
    message: str = ""
    log_error: str = ""


def read(path: Path) -> list[dict[str, Any]]:
    """The events in order; a line torn by a crash is left out. A missing file is an empty diary."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    events = []
    for line in lines:
        try:
            event = json.loads(line) if line else None
        except ValueError:
            continue
        if isinstance(event, dict) and "event" in event:
            events.append(event)
    return events


def append(path: Path, event: str, *, at: float, boottime: float, **fields: Any) -> None:
    """For the agent, while it holds the folder's lock. Raises OSError."""
    used = path.read_bytes().rstrip(b"\n") if path.exists() else b""
    line = json.dumps({"event": event, "t": round(boottime, 6), "at": round(at, 6), **fields}).encode()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, (b"\n" if used else b"") + line + b"\n", len(used))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fold(events: Iterable[dict[str, Any]]) -> History:
    history = History()
    for event in events:
        history = _next(history, event)
    return history


def _next(h: History, event: dict[str, Any]) -> History:
    match event["event"]:
        case "shim":
            return replace(
                h,
                boot_id=event["boot_id"],
                revision=event["revision"],
                shim_pid=event["pid"],
                ready_at=event["at"],
                over=h.over and h.went,
                stopped="",
            )
        case "go":
            return replace(h, went=True)
        case "started":
            started = Started(event["process"], event["rank"], event["pid"], event["start"])
            return replace(h, started=(*h.started, started), running_at=event["at"])
        case "exit":
            return _exited(h, event)
        case "stop":
            return replace(h, stopped=h.stopped or event["why"])
        case "fenced":
            return replace(h, problem="FENCED", message="its node had no acknowledged lease renewal for too long")
        case "log_error":
            return replace(h, log_error=event["why"])
        case "dead":
            over = h.went or h.stopped != REPLACED
            return replace(h, over=over, over_at=event["at"], revision=h.revision if over else 0)
        case "refused" | "vanished":
            problem = event.get("problem", "VANISHED")
            return replace(h, over=True, over_at=event["at"], problem=problem, message=event.get("message", ""))
        case _:
            return h


def _exited(h: History, event: dict[str, Any]) -> History:
    exit_ = RankExit(
        process=event["process"],
        rank=event["rank"],
        code=event.get("code"),
        signal=event.get("signal"),
        oom=event.get("oom", False),
        at=event["at"],
    )
    h = replace(h, exits=(*h.exits, exit_), dumped=(*h.dumped, event["pid"]) if event.get("core") else h.dumped)
    if event.get("errno") and not h.problem:
        problem = ERRNO_PROBLEMS.get(event["errno"], "LAUNCH_FAILED")
        return replace(h, problem=problem, message=f"the program could not be executed: {os.strerror(event['errno'])}")
    return h
