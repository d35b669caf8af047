"""Control groups of one worker, where this machine lets us make them; otherwise nothing, and the shim does without.

Membership is inherited and cannot be left without rights on the tree, so `cgroup.kill` (cgroup v2, Linux 5.14) reaches
what a fork, a setsid or a shim's own death would hide; the kernel counts its out-of-memory kills by group, which is the
only proof of one; and it enforces here what the manifest limits. Both hierarchies may be mounted, with each controller
on either (cgroups(7)).
"""

from __future__ import annotations

import contextlib
import os

V2, MEMORY, CPU, DEVICES = "cgroup2", "memory", "cpu", "devices"
V1 = (MEMORY, CPU, DEVICES)
AGENT = "muster-agent"
"""The group of a delegated tree in which the agent itself and its shims are, so that the tree may have controllers."""
PERIOD = 100_000
"""Microseconds, the kernel's default."""


class Groups:
    """Made below the shim's own groups. Every method is safe when none could be made."""

    def __init__(self, name: str, *, make: bool = True) -> None:
        """Without `make`, only those that are there already."""
        wanted = {kind: f"{parent.rstrip('/')}/muster-{name}" for kind, parent in parents().items()}
        self.by_kind = {
            kind: folder for kind, folder in wanted.items() if (_made(folder) if make else os.path.isdir(folder))
        }
        self.folders = list(dict.fromkeys(self.by_kind.values()))

    def enter(self) -> None:
        """Move the calling process in; for a child between fork and exec."""
        for folder in self.folders:
            _write(f"{folder}/cgroup.procs", "0")

    def limit(self, cpu_milli: int, memory: int) -> list[str]:
        """Enforce what is not 0. What could not be: `cpu`, `memory`."""
        quota = str(cpu_milli * PERIOD // 1000)
        ways = {
            "cpu": ((V2, "cpu.max", f"{quota} {PERIOD}"), (CPU, "cpu.cfs_quota_us", quota)) if cpu_milli else (),
            "memory": ((V2, "memory.max", str(memory)), (MEMORY, "memory.limit_in_bytes", str(memory)))
            if memory
            else (),
        }
        if memory:  # a limit that swap gets around is none
            self._set(V2, "memory.swap.max", "0")
        failed = [what for what, tries in ways.items() if tries and not any(self._set(*one) for one in tries)]
        if memory and "memory" not in failed:
            self._set(MEMORY, "memory.memsw.limit_in_bytes", str(memory))
            self._set(V2, "memory.oom.group", "0")
        return failed

    def _set(self, kind: str, name: str, text: str) -> bool:
        return kind in self.by_kind and _write(f"{self.by_kind[kind]}/{name}", text)

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


def parents() -> dict[str, str]:
    """This process's own folders: in the v2 hierarchy, and in those of v1 that have a controller of use. In a delegated
    tree the one above the agent's own."""
    own = {}
    for line in _lines("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(",") if controllers else (V2,):
            own[controller] = path
    found = {}
    for line in _lines("/proc/self/mountinfo"):
        fields, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        has = (V2,) if kind == V2 else tuple(set(options.split()[-1].split(","))) if kind == "cgroup" else ()
        for wanted in (V2, *V1):
            if wanted in has and wanted in own:
                root, point = fields.split(" ")[3:5]
                path = own[wanted].removeprefix(root.rstrip("/"))
                folder = point.rstrip("/") + "/" + path.strip("/")
                found[wanted] = folder.removesuffix(f"/{AGENT}")
    return found


def settle() -> None:
    """In a tree that is delegated to this process (systemd's Delegate=yes): move into a group of our own below it, so that
    its other children may have controllers. Anywhere else nothing happens."""
    folder = parents().get(V2)
    if folder is None or not os.access(f"{folder}/cgroup.subtree_control", os.W_OK) or _is_root(folder):
        return
    if set(_lines(f"{folder}/cgroup.procs")) - {str(os.getpid())}:
        return  # others are here: it is not ours
    with contextlib.suppress(OSError):
        os.makedirs(f"{folder}/{AGENT}", exist_ok=True)
        if _write(f"{folder}/{AGENT}/cgroup.procs", "0"):
            for controller in ("cpu", "memory", "pids"):
                _write(f"{folder}/cgroup.subtree_control", f"+{controller}")


def _is_root(folder: str) -> bool:
    """The root of a hierarchy has no `cgroup.type`."""
    return not os.path.exists(f"{folder}/cgroup.type")


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


def _write(path: str, text: str) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(descriptor, text.encode())
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _count(path: str) -> int:
    return sum(int(line.split()[1]) for line in _lines(path) if line.startswith("oom_kill "))


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []
