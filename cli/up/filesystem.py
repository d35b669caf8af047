"""Which file system a folder is on. SQLite may lose data on one that machines share, so the types that the store
refuses are refused before anything is started."""

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


def filesystem_of(path: Path, mounts: str) -> str:
    """The type below the absolute `path`, from the text of /proc/mounts (proc_pid_mounts(5)); empty when the text does
    not say. Of two mounts at one point the later one counts."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[1])
        inside = point == "/" or str(path) == point or str(path).startswith(point + "/")
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def is_network(kind: str) -> bool:
    """Whether other machines see a file system of this type, too."""
    name = kind.removeprefix("fuse.")
    return name in NETWORK or (name != kind and name in NETWORK_FUSE)


def mounts() -> str:
    """The text of /proc/mounts; empty where it cannot be read."""
    try:
        return Path("/proc/mounts").read_text(errors="replace")
    except OSError:
        return ""


def existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there and may be seen."""
    return next((one for one in (folder, *folder.parents) if os.path.exists(one)), Path("/"))
