"""Logs in a folder: NAMESPACE/JOBUID/ATTEMPTUID/ROLE-INDEX/{worker,rank-N}.log.

Paths are made only of what the database knows, never of what a frame says. An offset in the file is the offset in the
agent's stream, so a repeated piece overwrites itself."""

import os
import shutil
from pathlib import Path
from typing import Final

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


class LogStore:
    """Methods raise OSError."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, place: Place, rank: int | None) -> Path:
        return self._root / place.folder / ("worker.log" if rank is None else f"rank-{rank}.log")

    def append(self, place: Place, rank: int | None, offset: int, data: bytes) -> None:
        """Put `data` at `offset`. Bytes that never came leave a hole, which readers skip."""
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

    def remove_job(self, namespace: str, job_uid: str) -> None:
        """All logs of a job; what is not there is removed already."""
        shutil.rmtree(self._root / namespace / job_uid, ignore_errors=True)
