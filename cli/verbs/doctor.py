"""`muster doctor`."""

import importlib.util
import os
import resource
import shutil
import socket
import sys
import time
from pathlib import Path

import click

from cli.checkup import Finding, Machine, broken, examine
from cli.errors import Exit
from cli.output import FORMATS, as_json, as_yaml, colours, now, paint, say, terminal_width
from cli.timeline import fact
from cli.up.checks import redis_binary
from cli.up.filesystem import existing, filesystem_of, mounts
from cli.up.layout import Layout, default_folder
from muster.filesystem import is_network

PORT = 7878


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="To look at (MUSTER_DATA_DIR, else ~/.muster).")
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(1, 65535), help="Of the API.")
@click.option("-o", "--output", "form", type=click.Choice(FORMATS), default="table", help="How it is printed.")
def doctor(data_dir: Path | None, port: int, form: str) -> None:
    """Check whether this machine can run a cluster: all that is wrong at once, with what to do."""
    folder = data_dir.absolute() if data_dir else default_folder()
    findings = examine(look(folder, port))
    if form in ("json", "yaml"):
        whole = {"good": not broken(findings), "findings": [finding.wire() for finding in findings]}
        say(as_json(whole) if form == "json" else as_yaml(whole))
    elif form == "name":
        say("\n".join(finding.name for finding in findings if finding.level == "FAIL"))
    else:
        say(report(findings, width=terminal_width(), colour=colours()))
    if broken(findings):
        click.get_current_context().exit(Exit.ERROR)


def report(findings: list[Finding], *, width: int, colour: bool = False) -> str:
    """A table whose long cells go on below."""
    names = max(len(finding.name) for finding in findings) + 2
    lines = []
    for finding in findings:
        level = f"{finding.level:<6}"
        first, *more = fact(finding.name, finding.found, width=width - 6, column=names)
        lines += [(paint(level, finding.level) if colour else level) + first, *(" " * 6 + line for line in more)]
        if finding.fix:
            lines += [" " * 6 + line for line in fact("", f"fix: {finding.fix}", width=width - 6, column=names)]
    bad = sum(finding.level == "FAIL" for finding in findings)
    warnings = sum(finding.level == "warn" for finding in findings)
    verdict = f"{bad} thing{'s' if bad != 1 else ''} to mend first" if bad else "a cluster can run here: muster up"
    return "\n".join(
        [*lines, "", verdict + (f" ({warnings} warning{'s' if warnings != 1 else ''})" if warnings else "")]
    )


def look(folder: Path, port: int) -> Machine:
    """The facts of this machine. Writes nothing that stays."""
    there, mounted = existing(folder), mounts()
    kind = filesystem_of(there.resolve(), mounted)
    version = sys.version_info
    binary = redis_binary()
    owner, problem = _port(port)
    return Machine(
        python=(version.major, version.minor, version.micro),
        folder=str(folder),
        folder_problem=_writable(folder, there),
        file_system=kind,
        remote=is_network(kind),
        free_disk=_free_disk(there),
        free_memory=_free_memory(),
        cpus=len(os.sched_getaffinity(0)),
        address=f"127.0.0.1:{port}",
        port_owner=owner,
        own_cluster=bool(owner) and (Layout(folder).read_state() or {}).get("port") == port,
        port_problem=problem,
        loopback_problem=_bind(0)[1],
        ephemeral=_ephemeral(),
        open_files=_limit(resource.RLIMIT_NOFILE),
        processes=_limit(resource.RLIMIT_NPROC),
        redis=str(binary) if binary else "",
        packages={name: importlib.util.find_spec(name) is not None for name in ("torch", "sklearn")},
        cgroups=_cgroups(mounted),
        root=os.geteuid() == 0,
        now=now(),
        newest_file=_newest(folder),
        boottime=hasattr(time, "CLOCK_BOOTTIME"),
    )


def _newest(folder: Path) -> float | None:
    """Of the files right in it: the database is among them."""
    try:
        return max((one.stat().st_mtime for one in folder.iterdir()), default=None)
    except OSError:
        return None


def _writable(folder: Path, there: Path) -> str:
    if not there.is_dir():
        return f"{there} is no folder"
    if not os.access(there, os.W_OK | os.X_OK):
        return "cannot be written" if there == folder else f"cannot be made in {there}"
    return ""


def _free_disk(there: Path) -> int | None:
    try:
        return shutil.disk_usage(there).free
    except OSError:
        return None


def _free_memory() -> int | None:
    """What programs can still get, by the kernel and by the control group, whichever is less."""
    fields = dict(line.split(":", 1) for line in _text("/proc/meminfo").splitlines() if ":" in line)
    words = fields.get("MemAvailable", "").split()
    found = [int(words[0]) * 1024] if words else []
    limit, used = _text("/sys/fs/cgroup/memory.max").strip(), _text("/sys/fs/cgroup/memory.current").strip()
    if limit.isdigit() and used.isdigit():
        found.append(max(0, int(limit) - int(used)))
    return min(found, default=None)


def _port(port: int) -> tuple[str, str]:
    used, problem = _bind(port)
    return ("another program", "") if used else ("", problem)


def _bind(port: int) -> tuple[bool, str]:
    """Is the port in use, and what else is wrong."""
    import errno

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return (True, "") if error.errno == errno.EADDRINUSE else (False, error.strerror or str(error))
    return False, ""


def _ephemeral() -> tuple[int, int] | None:
    words = _text("/proc/sys/net/ipv4/ip_local_port_range").split()
    return (int(words[0]), int(words[1])) if len(words) == 2 else None


def _limit(which: int) -> int | None:
    soft = resource.getrlimit(which)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _cgroups(mounts: str) -> str:
    kinds = {fields[2]: fields[3] for line in mounts.splitlines() if len(fields := line.split()) > 3}
    if "cgroup2" in kinds and "cgroup" not in kinds:
        return "v2, writable" if os.access("/sys/fs/cgroup/cgroup.procs", os.W_OK) else "v2, read only"
    return "v1 and v2 mixed" if "cgroup2" in kinds else "v1" if "cgroup" in kinds else ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
