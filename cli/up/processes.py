"""Processes as Linux shows them: trees, identities, and an end for certain."""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Orphans of our children become our children, so none of them is out of reach."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """Run in a child between fork and exec: however the parent dies, the kernel ends the child. A parent that died
    before it was asked for that sends no signal any more."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def start_time(pid: int) -> int | None:
    """Ticks since boot at which this process began: with the pid its identity. None when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def children(pid: int) -> list[int]:
    found = []
    for task in _listing(Path(f"/proc/{pid}/task")):
        try:
            found += [int(word) for word in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def descendants(pid: int) -> list[int]:
    """Every process below this one, nearest first."""
    found, todo = [], [pid]
    while todo:
        below = children(todo.pop(0))
        found += below
        todo += below
    return found


def freeze(roots: Iterable[int], patience: float = 1.0) -> list[int]:
    """Stop these processes and all below them, from above: what is stopped starts nothing, so none escapes. All of
    them. `patience` in seconds for each to have stopped (one that waits for a disk stops when it has its answer)."""
    found, todo = [], list(roots)
    while todo:
        pid = todo.pop(0)
        if pid in found:
            continue
        kill([pid], signal.SIGSTOP)
        deadline = time.monotonic() + patience
        while _state(pid) not in "TtZX" and time.monotonic() < deadline:
            time.sleep(0.001)
        if start_time(pid) is not None:
            found.append(pid)
            todo += children(pid)
    return found


def _state(pid: int) -> str:
    """As in proc_pid_stat(5); X when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return "X"


def kill(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def end(pids: Iterable[int], patience: float) -> None:
    """Wait until these processes are gone; after `patience` seconds kill those that stay, with all below them."""
    deadline = time.monotonic() + patience
    left = {pid: start for pid in pids if (start := start_time(pid)) is not None}
    while left:
        for pid in set(left).intersection(children(os.getpid())):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        left = {pid: start for pid, start in left.items() if start_time(pid) == start}
        if left and time.monotonic() >= deadline:
            kill(freeze(left))
        time.sleep(0.01)


def shim_pids(agent_folder: Path) -> list[int]:
    """The live shims of one agent: the processes that hold `attempts/*/shim.lock` (pid and start are in the diary)."""
    found = []
    for diary in agent_folder.glob("attempts/*/diary.jsonl"):
        identity = _first_shim(diary)
        if identity and start_time(identity[0]) == identity[1]:
            found.append(identity[0])
    return found


def _first_shim(diary: Path) -> tuple[int, int] | None:
    import json

    try:
        with diary.open() as lines:
            for line in lines:
                entry = json.loads(line) if line.strip() else {}
                if entry.get("event") == "shim":
                    return int(entry["pid"]), int(entry["start"])
    except (OSError, ValueError, KeyError):
        return None
    return None


def _listing(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
