"""The ranks of a job as the operating system shows them: found by their environment in /proc."""

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Rank:
    """One living rank process. `born` tells a process from a later one with the same pid."""

    pid: int
    born: int
    rank: int
    node: str
    attempt: str
    environ: dict[str, str]

    def alive(self) -> bool:
        return _born(self.pid) == self.born


def ranks_of(job_uid: str) -> list[Rank]:
    """The living ranks of a job, of whatever attempt, in rank order."""
    found = [rank for pid in _pids() if (rank := _rank(pid)) and rank.environ.get("MUSTER_JOB_UID") == job_uid]
    return sorted(found, key=lambda rank: (rank.attempt, rank.rank, rank.pid))


def processes_of(folder: Path) -> list[tuple[int, str]]:
    """(pid, command) of every living process that knows of `folder` by its environment or command line."""
    found, mark = [], os.fsencode(folder)
    for pid in _pids():
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if pid != os.getpid() and _born(pid) and (mark in command or mark in environment):
            found.append((pid, command.replace(b"\0", b" ").decode(errors="replace").strip()))
    return found


class Watch:
    """Looks again and again whether ranks of two attempts of one job are ever alive together."""

    def __init__(self, job_uid: str) -> None:
        self._job_uid, self._end = job_uid, threading.Event()
        self.looks, self.together = 0, set[frozenset[str]]()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.is_set():
            # /proc is not read in one instant: only those alive also after the look were alive together.
            seen = {rank.attempt for rank in ranks_of(self._job_uid) if rank.alive()}
            self.looks += 1
            if len(seen) > 1:
                self.together.add(frozenset(seen))
            time.sleep(0.1)

    def stop(self) -> None:
        self._end.set()
        self._thread.join()


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _rank(pid: int) -> Rank | None:
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return None
    if b"MUSTER_JOB_UID=" not in data or b"\0RANK=" not in b"\0" + data:
        return None
    environ = dict(item.partition("=")[::2] for item in data.decode(errors="replace").split("\0") if item)
    born = _born(pid)
    if born is None or not environ["RANK"].isdigit():
        return None
    return Rank(pid, born, int(environ["RANK"]), environ["MUSTER_NODE"], environ["MUSTER_ATTEMPT_UID"], environ)


def _born(pid: int) -> int | None:
    """The start time of a living process in clock ticks; None when it is gone or only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
