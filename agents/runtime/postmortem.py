"""What is taken of a failed worker before and after its end: stacks of what still runs, core files of what has crashed.

`py-spy` is used where it is installed beside the agent (pip install 'muster-cluster[stacks]'); without it nothing waits.
"""

import asyncio
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from agents.runtime.children import Children
from muster.flight import Flight, flight

SECONDS: Final = 2.0
"""For all stacks of a worker together, since its stop waits for them."""
MOST: Final = 64
WINDOW: Final = 0.5
"""Seconds over which is measured how much a process computes."""
DUMP: Final = 16 * 2**20
RECORDER: Final = 3.0
"""Seconds that ranks get to dump their flight recorders."""
CALLS: Final = 32
"""Newest collectives of each group that are told."""
TEXT: Final = 32 * 1024
CORE_PATTERN: Final = Path("/proc/sys/kernel/core_pattern")
KEPT_CORES: Final = 4
"""Newest of this agent."""


def py_spy() -> str | None:
    return shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")


class Seen(Struct, frozen=True, kw_only=True):
    """A process as it was found: its rank (RANK of its environment), its Python stack where it could be had, the
    kernel's letter for its state, the share of a core that it used meanwhile."""

    pid: int
    rank: int | None
    text: str
    state: str
    share: float


async def look(children: Children, pids: Iterable[int], spy: str | None) -> list[Seen]:
    """All processes of a worker that are some rank's. Raises nothing."""
    ranks = {pid: rank for pid in sorted(pids) if (rank := _rank(pid)) is not None}
    before = {pid: _ticks(pid) for pid in ranks}
    texts = await stacks(children, ranks, spy) if spy else {}
    await asyncio.sleep(WINDOW if len(texts) < len(ranks) else 0.0)
    after = {pid: _ticks(pid) for pid in ranks}
    return [
        Seen(pid=pid, rank=rank, text=texts.get(pid, (None, ""))[1], state=after[pid][0],
             share=_share(before[pid], after[pid]))
        for pid, rank in ranks.items()
        if after[pid][0]
    ]  # fmt: skip


def _share(before: tuple[str, float, float], after: tuple[str, float, float]) -> float:
    seconds = after[2] - before[2]
    return round(max(0.0, after[1] - before[1]) / seconds, 3) if seconds > 0 else 0.0


def _ticks(pid: int) -> tuple[str, float, float]:
    """(state, seconds of computing, when it was read); see proc_pid_stat(5)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return fields[0], (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), time.monotonic()
    except (OSError, ValueError, IndexError):
        return "", 0.0, time.monotonic()


def flights(folder: Path) -> dict[int, Flight]:
    """The flight recorders that lie in a worker's folder, by rank; each is asked for anew through its pipe first (see
    `ask`). They are the job's own files: no link is followed and not more than `DUMP` bytes are read."""
    found: dict[int, Flight] = {}
    for path in sorted(folder.glob("dump.*"))[:MOST]:
        rank = path.name.rpartition(".")[2]
        if rank.isdigit() and (read := flight(_bytes(path))) is not None:
            found[int(rank)] = read
    return found


def ask(folder: Path) -> int:
    """How many ranks were told to dump their flight recorders: PyTorch's heartbeat thread reads these pipes."""
    asked = 0
    for path in sorted(folder.glob("pipe.*"))[:MOST]:
        with suppress(OSError):
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                    os.write(descriptor, b"1")
                    asked += 1
            finally:
                os.close(descriptor)
    return asked


def _bytes(path: Path) -> bytes:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return file.read(DUMP)
    return b""


async def stacks(children: Children, pids: Iterable[int], spy: str) -> dict[int, tuple[int | None, str]]:
    """Python stacks by pid, each with its rank (RANK of its environment). What is no Python, or does not answer in time,
    is left out."""
    pythons = [pid for pid in sorted(pids) if _is_python(pid)][:MOST]
    texts = await asyncio.gather(*(_dump(children, pid, spy) for pid in pythons))
    return {pid: (_rank(pid), text) for pid, text in zip(pythons, texts, strict=True) if text}


async def _dump(children: Children, pid: int, spy: str) -> str:
    try:
        told = await children.output((spy, "dump", "--nonblocking", "--pid", str(pid)), timeout=SECONDS, limit=2**20)
    except (TimeoutError, OSError):
        return ""
    return told.decode(errors="replace")[:TEXT]


def _is_python(pid: int) -> bool:
    with suppress(OSError):
        return "python" in os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    return False


def _rank(pid: int) -> int | None:
    with suppress(OSError, ValueError):
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith(b"RANK="):
                return int(entry[5:])
    return None


def cores(folders: Iterable[Path], pids: Iterable[int], keep: Path, own: Path) -> list[str]:
    """Where the core files of these processes are, as far as the kernel's pattern tells. Those in the worker's `own`
    folder, which goes, are moved to `keep`. A pipe in the pattern has taken them: it is told."""
    pattern = _pattern()
    if pattern.startswith("|"):
        return [f"core dumps went to {pattern[1:].split()[0]}"]
    found = []
    for folder in dict.fromkeys(folders):
        for pid in pids:
            for name in dict.fromkeys((f"core.{pid}", "core", os.path.basename(pattern).replace("%p", str(pid)))):
                path = (Path(pattern).parent if pattern.startswith("/") else folder) / name
                if path.is_file() and not path.is_symlink():
                    found.append(path)
    return [f"core dump: {_kept(path, keep, own)}" for path in dict.fromkeys(found)]


def _pattern() -> str:
    try:
        return CORE_PATTERN.read_text().strip()
    except OSError:
        return "core"


def _kept(path: Path, keep: Path, own: Path) -> Path:
    if own not in path.parents:
        return path
    with suppress(OSError):
        keep.mkdir(parents=True, exist_ok=True, mode=0o700)
        target = keep / f"{own.parent.name}.{path.name}"
        os.replace(path, target)
        for old in sorted(keep.iterdir(), key=lambda one: one.stat().st_mtime)[:-KEPT_CORES]:
            old.unlink()
        return target
    return path
