"""Mounts of the network that do not answer. Each is asked in a process of its own: a dead server holds whoever asks."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Final

from agents.health.check import Check, Memory, Scene, in_a_row, wrong
from muster.conditions import Condition

ANSWER_WITHIN: Final = 5.0
NETWORK: Final = (
    "nfs", "nfs4", "lustre", "ceph", "cifs", "smb3", "glusterfs", "fuse.glusterfs", "beegfs", "gpfs", "wekafs",
    "fuse.sshfs", "fuse.s3fs", "9p", "orangefs", "fuse.juicefs", "JuiceFS",
)  # fmt: skip
_ASK: Final = "import os,sys\ntry: os.statvfs(sys.argv[1])\nexcept OSError as e: sys.stdout.write(os.strerror(e.errno)); sys.exit(9)"


def mounts(scene: Scene, memory: Memory) -> list[Condition]:
    """A mount that did not answer is asked again only when the process that asked it has gone."""
    found = []
    answers = ask(sorted(_points(scene)), memory)
    for point, trouble in answers.items():
        if in_a_row(memory, f"row {point}", bool(trouble)) >= (1 if "Stale" in trouble else 2):
            reason = "StaleMount" if "Stale" in trouble else "MountHangs"
            found.append(wrong("Mount", reason, f"{point}: {trouble}", "error", subject=point))
    return found


def _points(scene: Scene) -> set[str]:
    try:
        lines = (scene.proc / "self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    cells = [line.split() for line in lines]
    return {
        one[1].encode().decode("unicode_escape") if "\\" in one[1] else one[1]
        for one in cells
        if len(one) > 2 and one[2] in NETWORK
    }


def ask(points: list[str], memory: Memory, within: float = ANSWER_WITHIN) -> dict[str, str]:
    """Each mount point to what is wrong with it; nothing when it answers."""
    held = {point: pid for point, pid in memory.get("held", {}).items() if _alive(pid)}
    answers = {point: f"does not answer, process {held[point]} hangs in it" for point in points if point in held}
    asked = {point: _start(point) for point in points if point not in held}
    deadline = time.monotonic() + within
    for point, process in asked.items():
        try:
            said, _ = process.communicate(timeout=max(0.05, deadline - time.monotonic()))
            answers[point] = said.decode(errors="replace") if process.returncode else ""
        except subprocess.TimeoutExpired:
            with suppress(OSError):
                os.kill(process.pid, signal.SIGKILL)
            held[point] = process.pid
            answers[point] = f"does not answer within {within:g} s"
    memory["held"] = held
    return answers


def _start(point: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        (sys.executable, "-I", "-S", "-c", _ASK, point),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _alive(pid: int) -> bool:
    """Not a zombie: that one has answered after all, or was killed."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


CHECKS: Final = (Check("mounts", 60.0, 20.0, mounts),)
