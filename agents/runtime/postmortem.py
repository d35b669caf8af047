"""What is taken of a failed worker before and after its end: stacks of what still runs, core files of what has crashed.

`py-spy` is used where it is installed beside the agent (pip install 'muster-cluster[stacks]'); without it nothing waits.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from agents.runtime.children import Children

SECONDS: Final = 2.0
"""For all stacks of a worker together, since its stop waits for them."""
MOST: Final = 64
TEXT: Final = 32 * 1024
CORE_PATTERN: Final = Path("/proc/sys/kernel/core_pattern")
KEPT_CORES: Final = 4
"""Newest of this agent."""


def py_spy() -> str | None:
    return shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")


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
