"""Writes decisions with their index into a folder, beside the loop: when it cannot keep up, it leaves some out."""

import os
import queue
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import structlog

from controller.scheduling.index import ClusterIndex
from controller.scheduling.types import Plan
from controller.simulation.recording import pack
from muster.reasons import Waiting

log = structlog.get_logger("muster.recorder")

SUFFIX: Final = ".plan"
WAITING: Final = 2
"""Decisions that may wait to be written."""


class Recorder:
    """`limit` in bytes for the whole folder; the oldest go first. Owns a thread until `close`."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self._queue: queue.Queue[tuple[ClusterIndex, float, Plan] | None] = queue.Queue(WAITING)
        self._reasons: list[tuple[str, Waiting]] = []
        self.left_out = 0
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self._thread.start()

    def note(self, index: ClusterIndex, now: float, decided: Plan) -> None:
        """Never waits, never raises."""
        try:
            self._queue.put_nowait((index, now, decided))
        except queue.Full:
            self.left_out += 1

    def close(self) -> None:
        """Returns when what was noted is written."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (noted := self._queue.get()) is not None:
            try:
                self._write(*noted)
            except Exception as error:  # whatever is wrong with the record of decisions, decisions go on
                log.warning("a decision cannot be recorded", folder=str(self._folder), error=str(error))

    def _write(self, index: ClusterIndex, now: float, decided: Plan) -> None:
        """A plan that decides nothing and gives the reasons of the one before is not worth a file."""
        acts = (
            decided.groups,
            decided.evictions,
            decided.migrations,
            decided.growths,
            decided.turnovers,
            decided.stops,
            decided.released,
        )
        reasons = [(wait.job_uid, wait.code) for wait in decided.waits]
        if reasons == self._reasons and not any(acts):
            return
        self._reasons = reasons
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / f"{index.revision:012d}-{int(now * 1000):014d}{SUFFIX}"
        half = path.with_suffix(".half")
        half.write_bytes(pack(index, now, decided))
        os.replace(half, path)
        for old in surplus(self._files(), self._limit):
            (self._folder / old).unlink(missing_ok=True)

    def _files(self) -> list[tuple[str, int]]:
        with os.scandir(self._folder) as found:
            return sorted((one.name, one.stat().st_size) for one in found if one.name.endswith(SUFFIX))


def surplus(files: Iterable[tuple[str, int]], limit: int) -> list[str]:
    """The oldest of these (name, bytes), by name, without which the rest is within the limit. The newest stays."""
    newest_first = sorted(files, reverse=True)
    going, total = [], 0
    for number, (name, size) in enumerate(newest_first):
        total += size
        if number and total > limit:
            going.append(name)
    return going
