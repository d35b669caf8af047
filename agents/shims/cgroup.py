"""Control groups of one worker, where this machine lets us make them; otherwise nothing, and the shim does without.

Nothing is limited here. Membership is inherited and cannot be left without rights on the tree, so `cgroup.kill`
(cgroup v2, Linux 5.14) reaches what a fork, a setsid or a shim's own death would hide; and the kernel counts its
out-of-memory kills by group, which is the only proof of one. Both hierarchies may be mounted, with memory on
either (cgroups(7)).
"""

from __future__ import annotations

import contextlib
import os

V2, MEMORY = "cgroup2", "memory"


class Groups:
    """Made below the shim's own groups. Every method is safe when none could be made."""

    def __init__(self, name: str, *, make: bool = True) -> None:
        """Without `make`, only those that are there already."""
        wanted = [f"{parent.rstrip('/')}/muster-{name}" for parent in parents()]
        self.folders = [folder for folder in wanted if (_made(folder) if make else os.path.isdir(folder))]

    def enter(self) -> None:
        """Move the calling process in; for a child between fork and exec."""
        for folder in self.folders:
            _write(f"{folder}/cgroup.procs", "0")

    def kill(self) -> None:
        for folder in self.folders:
            _write(f"{folder}/cgroup.kill", "1")

    def oom_kills(self) -> int:
        """How many processes of this worker the kernel has killed for want of memory."""
        return sum(
            _count(f"{folder}/{file}") for folder in self.folders for file in ("memory.events", "memory.oom_control")
        )

    def members(self) -> set[int]:
        """Pids that live in the groups now."""
        return {int(line) for folder in self.folders for line in _lines(f"{folder}/cgroup.procs")}

    def close(self) -> None:
        """Once every process is dead."""
        for folder in self.folders:
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def parents() -> list[str]:
    """This process's own folders in the v2 hierarchy and in the v1 memory hierarchy."""
    own = {}
    for line in _lines("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        own[MEMORY if MEMORY in controllers.split(",") else controllers or V2] = path
    found = []
    for line in _lines("/proc/self/mountinfo"):
        fields, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        wanted = V2 if kind == V2 else MEMORY if kind == "cgroup" and MEMORY in options.split()[-1].split(",") else None
        if wanted in own:
            root, point = fields.split(" ")[3:5]
            path = own[wanted].removeprefix(root.rstrip("/"))
            found.append(point.rstrip("/") + "/" + path.strip("/"))
    return found


def _made(folder: str) -> bool:
    """False where the tree is not ours to write."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return False
    if os.access(f"{folder}/cgroup.procs", os.W_OK):
        return True
    with contextlib.suppress(OSError):
        os.rmdir(folder)
    return False


def _write(path: str, text: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def _count(path: str) -> int:
    return sum(int(line.split()[1]) for line in _lines(path) if line.startswith("oom_kill "))


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []
