"""One worker's folder on its node.

assignment.json   the newest assignment (0600: it holds the attempt's token)
launch.json       what the shim is to start (0600; the shim removes it)
shim.lock, shim.sock, shim.err, diary.jsonl, streams/   the shim's
work/             `%{dir}`, the processes' private folder and the base of relative paths
logs/             `%{logs}`, where a framework writes per-rank logs
report.jsonl      `%{report}`
shipped.json      how far the logs are in the log store
acked             the end has been reported and acknowledged
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from muster.protocol import Assignment

KEPT_DIARIES = 1000


class Folder:
    """Paths and small files of one worker. Nothing here waits for a shim."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.assignment, self.launch, self.lock = path / "assignment.json", path / "launch.json", path / "shim.lock"
        self.diary, self.errors, self.report = path / "diary.jsonl", path / "shim.err", path / "report.jsonl"
        self.work, self.logs, self.streams = path / "work", path / "logs", path / "streams"
        self.shipped, self.acked = path / "shipped.json", path / "acked"
        self.recorders = self.work / ".recorders"

    def create(self) -> None:
        """Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in (self.work, self.logs, self.streams, self.recorders):
            folder.mkdir(exist_ok=True, mode=0o700)

    def exists(self) -> bool:
        return self.assignment.exists()

    def save(self, assignment: Assignment) -> None:
        """Raises OSError."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace(self.assignment, msgspec.json.encode(assignment))

    def load(self) -> Assignment | None:
        """None when the folder holds no readable assignment: it is from a prepare that was cut short."""
        try:
            return msgspec.json.decode(self.assignment.read_bytes(), type=Assignment)
        except (OSError, ValueError):
            return None

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def archive(self, folder: Path) -> None:
        """Remove all but the diary, which is kept as `folder`/UID.jsonl: it proves when this worker was alive."""
        with suppress(OSError):
            folder.mkdir(exist_ok=True, mode=0o700)
            os.replace(self.diary, folder / f"{self.path.name}.jsonl")
            for old in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT_DIARIES]:
                old.unlink()
        self.remove()

    def from_archive(self, folder: Path) -> bool:
        """Take the diary back out of `folder`, for a controller that has forgotten this worker's end. False: none."""
        try:
            os.replace(folder / f"{self.path.name}.jsonl", self.diary)
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """True inside when no shim has this folder; none can begin meanwhile."""
        try:
            descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            yield True
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield True
        except BlockingIOError:
            yield False
        finally:
            os.close(descriptor)


def replace(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Write whole or not at all; `durable` also over a power failure. Raises OSError."""
    temporary = path.with_name(path.name + ".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
