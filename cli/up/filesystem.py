"""What `up` and `doctor` ask about the file system of a folder that may not be there yet; the rules are the store's."""

import os
from pathlib import Path

from muster.filesystem import mount_of


def filesystem_of(path: Path, mounts: str) -> str:
    """The type below the absolute `path`, from the text of /proc/mounts; empty when the text does not say."""
    found = mount_of(str(path), mounts)
    return found[1] if found else ""


def mounts() -> str:
    """The text of /proc/mounts; empty where it cannot be read."""
    try:
        return Path("/proc/mounts").read_text(errors="replace")
    except OSError:
        return ""


def existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there and may be seen."""
    return next((one for one in (folder, *folder.parents) if os.path.exists(one)), Path("/"))
