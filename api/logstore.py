"""Logs as NAMESPACE/JOBUID/ATTEMPTUID/ROLE-INDEX/{worker,rank-N}.log in a folder, or in a bucket (logbucket.py).

Paths are made only of what the database knows, never of what a frame says. An offset in the file is the offset in the
agent's stream, so a repeated piece overwrites itself."""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from controller.records import WorkerRecord

LIMIT: Final = 512 * 2**20
"""Bytes of one stream. Agents keep to a smaller limit of their own; this one is for agents that do not."""


class Place(Struct, frozen=True):
    """The folder of one worker's logs below the store, and the ranks that it may have."""

    folder: str
    first_rank: int
    ranks: int

    @classmethod
    def of(cls, worker: WorkerRecord) -> "Place":
        name = f"{worker.role}-{worker.index}"
        folder = "/".join((worker.namespace, worker.job_uid, worker.attempt_uid, name))
        return cls(folder, worker.template.first_rank, worker.template.ranks)

    def has(self, rank: int | None) -> bool:
        """None is the worker's own stream."""
        return rank is None or self.first_rank <= rank < self.first_rank + self.ranks

    def name(self, rank: int | None) -> str:
        return f"{self.folder}/" + ("worker.log" if rank is None else f"rank-{rank}.log")


class Held(Struct, frozen=True):
    """Bytes of a job's logs, and when they were last written (UTC seconds, None where the store does not say)."""

    size: int
    written_at: float | None = None


class LogFile(Protocol):
    """One stream's log, to read. Methods raise OSError, FileNotFoundError when there is none yet."""

    def size(self) -> int: ...

    def read(self, position: int, limit: int) -> tuple[bytes, int]:
        """What begins at `position` or behind a hole there, and the position behind it."""
        ...


class LogStore(Protocol):
    """Methods raise OSError. `gather` is how many seconds pieces are gathered before they are appended, because each
    append costs a request."""

    gather: float

    def prepare(self) -> None: ...

    def file(self, place: Place, rank: int | None) -> LogFile: ...

    def append(self, place: Place, rank: int | None, offset: int, data: bytes) -> None:
        """Put `data` at `offset`, for good. Bytes that never came leave a hole, which readers skip."""
        ...

    def held(self) -> dict[tuple[str, str], "Held"]:
        """What is there of each (namespace, job uid)."""
        ...

    def remove_job(self, namespace: str, job_uid: str) -> None:
        """All logs of a job; what is not there is removed already."""
        ...


def open_log_store(target: str) -> LogStore:
    """A folder, or a URL that fsspec knows, e.g. s3://bucket/logs. Raises ValueError."""
    if "://" not in target or target.startswith("file://"):
        return FolderStore(Path(target.removeprefix("file://")))
    from api.logbucket import BucketStore

    return BucketStore.at(target)


class FolderFile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int:
        return self.path.stat().st_size

    def read(self, position: int, limit: int) -> tuple[bytes, int]:
        with open(self.path, "rb") as file:
            file.seek(position)
            data = file.read(limit)
        return data.replace(b"\0", b""), position + len(data)


class FolderStore:
    gather = 0.0

    def __init__(self, root: Path) -> None:
        self._root = root

    def prepare(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True, mode=0o750)

    def path(self, place: Place, rank: int | None) -> Path:
        return self._root / place.name(rank)

    def file(self, place: Place, rank: int | None) -> FolderFile:
        return FolderFile(self.path(place, rank))

    def append(self, place: Place, rank: int | None, offset: int, data: bytes) -> None:
        if offset + len(data) > LIMIT:
            return
        path = self.path(place, rank)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            view = memoryview(data)
            while view:
                written = os.pwrite(descriptor, view, offset)
                view, offset = view[written:], offset + written
        finally:
            os.close(descriptor)

    def held(self) -> dict[tuple[str, str], Held]:
        found: dict[tuple[str, str], Held] = {}
        for folder, _, names in os.walk(self._root):
            parts = Path(folder).relative_to(self._root).parts
            for name in names if len(parts) >= 2 else ():
                with suppress(FileNotFoundError):
                    status = os.stat(os.path.join(folder, name))
                    before = found.get((parts[0], parts[1]), Held(0, 0.0))
                    size = before.size + status.st_blocks * 512  # a hole takes nothing
                    found[(parts[0], parts[1])] = Held(size, max(before.written_at or 0.0, status.st_mtime))
        return found

    def remove_job(self, namespace: str, job_uid: str) -> None:
        shutil.rmtree(self._root / namespace / job_uid, ignore_errors=True)
