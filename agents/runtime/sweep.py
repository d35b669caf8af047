"""Kill for certain what is left of a worker whose shim is gone.

First-level processes die with their shim; what they started themselves may live on. It is known by its
environment (MUSTER_WORKER_UID), by its session, as a descendant of one of these, or as an orphan that
became the agent's child.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from agents.runtime.diary import Started

PROC = Path("/proc")


class Running(Struct, frozen=True):
    """A process that is not a zombie. `start` is in clock ticks after boot."""

    pid: int
    parent: int
    session: int
    start: int


def running(proc: Path = PROC) -> list[Running]:
    found = []
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            fields = (proc / name / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):
            found.append(Running(int(name), int(fields[1]), int(fields[3]), int(fields[19])))
    return found


def belongs(pid: int, worker_uid: str, proc: Path = PROC) -> bool:
    """Whether the process was started with this worker's uid in its environment; only our own user's can be read."""
    try:
        return f"MUSTER_WORKER_UID={worker_uid}".encode() in (proc / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def remains(
    processes: Iterable[Running],
    *,
    marked: Callable[[int], bool],
    started: Iterable[Started],
    agent: int,
    known: set[int],
) -> set[int]:
    """Pids of what is left. `agent` is our own pid, `known` the children that we started ourselves. Pure."""
    processes = list(processes)
    by_pid = {process.pid: process for process in processes}
    sessions = {s.pid for s in started if s.pid not in by_pid or by_pid[s.pid].start == s.start}
    found = {
        process.pid
        for process in processes
        if process.session in sessions or (process.parent == agent and process.pid not in known) or marked(process.pid)
    }
    grown = True
    while grown:
        more = {p.pid for p in processes if p.parent in found} - found
        found |= more
        grown = bool(more)
    return found - known - {agent}


async def sweep(find: Callable[[], set[int]], pause: float = 0.02) -> int:
    """Freeze and kill what `find` finds until it finds nothing. Returns how many processes were killed."""
    killed: set[int] = set()
    while left := find():
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        killed |= left
        await asyncio.sleep(pause)
        pause = min(1.0, pause * 2)
    return len(killed)
