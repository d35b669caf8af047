"""Is a folder on a disk of this machine? SQLite's write-ahead log needs shared memory and locks that network file
systems do not give: several machines, or even two processes of one, would corrupt the database."""

import os
import re
from pathlib import Path
from typing import Final

NETWORK: Final = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "ncpfs",
        "afs",
        "ceph",
        "lustre",
        "gpfs",
        "beegfs",
        "glusterfs",
        "ocfs2",
        "gfs2",
        "pvfs2",
        "orangefs",
        "wekafs",
        "davfs",
    ]
)
"""Types as in /proc/mounts. A `fuse.` in front is the same thing in user space."""

NETWORK_FUSE: Final = frozenset(
    [
        "sshfs",
        "s3fs",
        "gcsfuse",
        "goofys",
        "rclone",
        "mountpoint-s3",
        "juicefs",
        "glusterfs",
        "ceph",
        "ceph-fuse",
        "davfs2",
        "cifs",
        "nfs",
        "curlftpfs",
        "blobfuse",
        "blobfuse2",
        "alluxio",
    ]
)


def mount_of(path: str, mounts: str) -> tuple[str, str] | None:
    """(mount point, type) of the file system that holds the absolute `path`, from the text of /proc/mounts. Of two
    mounts at one point the later one counts. None when the text names no mount above the path."""
    best: tuple[str, str] | None = None
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        point, kind = _unescape(parts[1]), parts[2]
        if _is_below(path, point) and (best is None or len(point) >= len(best[0])):
            best = (point, kind)
    return best


def is_network(kind: str) -> bool:
    """Whether a file system type is one that other machines see, too."""
    if kind.startswith("fuse."):
        kind = kind.removeprefix("fuse.")
        return kind in NETWORK_FUSE or kind in NETWORK
    return kind in NETWORK


def check_local_filesystem(path: str | Path) -> str | None:
    """None when `path` (or the nearest folder above it that exists) is on a local file system, else a sentence that
    says what is wrong and what to do."""
    real = os.path.realpath(path)
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = mount_of(real, mounts)
    if found is None or not is_network(found[1]):
        return None
    point, kind = found
    return (
        f"{path} is on a network file system ({kind}, mounted at {point}), where SQLite can lose data; "
        "take a folder on a local disk, or PostgreSQL for the database"
    )


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), text)


def _is_below(path: str, point: str) -> bool:
    return point == "/" or path == point or path.startswith(point.rstrip("/") + "/")
