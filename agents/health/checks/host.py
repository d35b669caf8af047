"""The machine itself: memory and PCIe errors, disks, file systems, clock, processes that are stuck."""

import ctypes
import os
import re
from pathlib import Path
from typing import Final

from agents.health.check import Check, Memory, Scene, grown, in_a_row, wrong
from muster.conditions import Condition, Remedy

LOCAL: Final = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "vfat"})
LEAST: Final = (2, 2 << 30)
"""A file system with less free than so many per cent and so many bytes takes no new work."""
LOW: Final = (10, 20 << 30)
MANY_ZOMBIES: Final = 500
STA_UNSYNC: Final = 0x40


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def pcie_errors(scene: Scene, memory: Memory) -> list[Condition]:
    """Advanced Error Reporting counters of every PCIe device, by how much they grow."""
    found = []
    root = scene.sys / "bus/pci/devices"
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        for name, severity in (("fatal", "fatal"), ("nonfatal", "warning"), ("correctable", "info")):
            total = re.search(r"TOTAL_ERR_\w+ (\d+)", _read(folder / f"aer_dev_{name}"))
            if total is None:
                continue
            more = grown(memory, f"{folder.name}/{name}", int(total.group(1)))
            if name == "correctable":
                if more >= 1000:
                    message = f"{more} corrected PCIe errors at {folder.name} since the last look"
                    found.append(wrong("PcieErrors", "AerCorrected", message, subject=folder.name))
            elif more:
                remedy = Remedy.REBOOT if name == "fatal" else Remedy.NONE
                message = f"{more} {name} PCIe errors at {folder.name} since the last look"
                reason = f"Aer{name.capitalize()}"
                found.append(wrong("PcieErrors", reason, message, severity, remedy, subject=folder.name))  # type: ignore[arg-type]
    return found


def memory_modules(scene: Scene, memory: Memory) -> list[Condition]:
    """EDAC: errors of the machine's own memory. Uncorrected ones stay said until the next boot."""
    found = []
    root = scene.sys / "devices/system/edac/mc"
    for folder in sorted(root.glob("mc*")) if root.is_dir() else ():
        lost, mended = _read(folder / "ue_count"), _read(folder / "ce_count")
        if lost.isdigit() and int(lost):
            message = f"{lost} uncorrected memory errors at {folder.name} since the boot"
            found.append(wrong("HostMemory", "EdacUncorrected", message, "fatal", Remedy.REPLACE, subject=folder.name))
        if mended.isdigit() and grown(memory, folder.name, int(mended)) >= 100:
            message = f"{mended} corrected memory errors at {folder.name}, and more of them"
            found.append(wrong("HostMemory", "EdacCorrected", message, subject=folder.name))
    return found


def out_of_memory(scene: Scene, memory: Memory) -> list[Condition]:
    kills = re.search(r"^oom_kill (\d+)$", _read(scene.proc / "vmstat"), re.MULTILINE)
    more = grown(memory, "kills", int(kills.group(1))) if kills else 0
    return [wrong("OutOfMemory", "OomKills", f"the kernel killed {more} processes for want of memory")] if more else []


def space(scene: Scene, memory: Memory) -> list[Condition]:
    """The agent's own file system, the root, temporary files and shared memory."""
    found, seen = [], set()
    for path in (scene.folder, "/", "/tmp", "/var/tmp", "/dev/shm"):
        try:
            where = os.statvfs(path)
        except OSError:
            continue
        if where.f_fsid in seen or not where.f_blocks:
            continue
        seen.add(where.f_fsid)
        free, share = where.f_bavail * where.f_frsize, 100 * where.f_bavail / where.f_blocks
        own = path == scene.folder
        message = f"{path}: {free >> 20} MiB free, {share:.1f} %"
        if share < LEAST[0] and free < LEAST[1]:
            found.append(wrong("DiskSpace", "DiskFull", message, "error" if own else "warning", subject=path))
        elif share < LOW[0] and free < LOW[1]:
            found.append(wrong("DiskSpace", "DiskLow", message, "info", subject=path))
        files = 100 * where.f_favail / where.f_files if where.f_files else 100.0
        if files < 1:
            found.append(wrong("DiskSpace", "InodesFull", f"{path}: {where.f_favail} inodes free", subject=path))
    return found


def read_only(scene: Scene, memory: Memory) -> list[Condition]:
    """A local file system that could be written and cannot any more."""
    found = []
    for line in _read(scene.proc / "self/mounts").splitlines():
        cells = line.split()
        if len(cells) < 4 or cells[2] not in LOCAL:
            continue
        mount, options = cells[1], cells[3].split(",")
        if "rw" in options:
            memory[mount] = True
        elif memory.get(mount):
            message = f"{mount} ({cells[0]}) became read-only"
            found.append(wrong("ReadOnly", "ReadOnlyRemount", message, "fatal", Remedy.REBOOT, subject=mount))
    return found


def nvme(scene: Scene, memory: Memory) -> list[Condition]:
    """Controllers that the kernel does not call live, and ones that are gone."""
    found = []
    root = scene.sys / "class/nvme"
    states = {one.name: _read(one / "state") for one in sorted(root.iterdir())} if root.is_dir() else {}
    for name, state in states.items():
        if state == "live":
            memory[name] = True
        elif in_a_row(memory, f"{name}/off", True) > 1:
            message = f"{name} is {state or 'without a state'}"
            found.append(wrong("Nvme", "NvmeNotLive", message, "error", Remedy.REBOOT, subject=name))
        if state == "live":
            in_a_row(memory, f"{name}/off", False)
    found += [
        wrong("Nvme", "NvmeMissing", f"{name} is not seen any more", "error", Remedy.REBOOT, subject=name)
        for name in memory
        if "/" not in name and name not in states
    ]
    return found


def clock(scene: Scene, memory: Memory) -> list[Condition]:
    """Whether the kernel calls its clock synchronised (adjtimex(2)), and how wrong it may be."""
    buffer = (ctypes.c_long * 64)()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(buffer))
    except (OSError, AttributeError):
        return []
    if state < 0:
        return []
    return judge_clock(state, worst_us=int(buffer[3]), unsynchronised=bool(int(buffer[5]) & STA_UNSYNC))


def judge_clock(state: int, *, worst_us: int, unsynchronised: bool) -> list[Condition]:
    """`state` 5 is TIME_ERROR. `worst_us`: the largest error that the kernel thinks possible, in microseconds."""
    if unsynchronised or state == 5:
        return [wrong("Clock", "ClockUnsynchronised", "nothing keeps this machine's clock right", "info")]
    if worst_us > 1_000_000:
        return [wrong("Clock", "ClockSkew", f"the clock may be wrong by {worst_us / 1e6:.1f} s")]
    return []


def processes(scene: Scene, memory: Memory) -> list[Condition]:
    """Many zombies; processes that have waited in the kernel (state D) at every look, by what they wait in."""
    zombies, stuck = 0, {}
    for folder in scene.proc.iterdir():
        if not folder.name.isdigit():
            continue
        stat = _read(folder / "stat")
        state = stat.rpartition(")")[2].split()[:1]
        zombies += state == ["Z"]
        if state == ["D"]:
            stuck[folder.name] = f"{stat[stat.find('(') + 1 : stat.rfind(')')]} in {_read(folder / 'wchan') or '?'}"
    before = memory.get("stuck", {})
    memory["stuck"] = {pid: before.get(pid, 0) + 1 for pid in stuck}
    lasting = [f"{pid} ({stuck[pid]})" for pid, times in memory["stuck"].items() if times >= 3]
    found = []
    if lasting:
        message = f"{len(lasting)} processes have been waiting in the kernel: {', '.join(lasting[:5])}"
        found.append(wrong("Processes", "StuckProcesses", message))
    if zombies >= MANY_ZOMBIES:
        found.append(wrong("Processes", "Zombies", f"{zombies} zombie processes"))
    return found


CHECKS: Final = (
    Check("pcie-errors", 60.0, 10.0, pcie_errors),
    Check("host-memory", 60.0, 10.0, memory_modules),
    Check("out-of-memory", 30.0, 5.0, out_of_memory),
    Check("disk-space", 60.0, 10.0, space),
    Check("read-only", 60.0, 5.0, read_only),
    Check("nvme", 60.0, 10.0, nvme),
    Check("clock", 300.0, 5.0, clock),
    Check("processes", 60.0, 10.0, processes),
)
