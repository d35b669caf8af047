"""Where a log stream's bytes lie: rotated files that a shim pumps, or a file that a framework writes itself.

A source is read from a position; it says what it has and where to go on. Files come and go under its hands.
"""

import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from msgspec import Struct

SEGMENT = re.compile(r"(worker|rank-\d+)\.(\d{20})\.log")


class Piece(Struct, frozen=True):
    """`missed` bytes before `data` are gone: they were rotated away or overwritten. `position` is behind the data."""

    data: bytes
    position: int
    missed: int = 0


class Source(Protocol):
    """`stream` is what people call it: output, stdout, stderr."""

    stream: str

    def read(self, position: int, limit: int) -> Piece: ...

    def end(self) -> int:
        """The position behind the last byte that there is."""
        ...

    def written_at(self) -> float:
        """UTC seconds of the last write; 0 when there is none."""
        ...


class Rotated:
    """A shim's stream: files NAME.OFFSET.log; positions are offsets in the stream."""

    stream = "output"

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name

    def read(self, position: int, limit: int) -> Piece:
        """Over the ends of files, so that a character which is cut by one comes whole."""
        missed, data = 0, b""
        for start, path in self._segments():
            if not data and position < start:
                missed, position = missed + start - position, start
            if len(data) < limit and start <= position < start + _size(path):
                more = _read(path, position - start, limit - len(data))
                data, position = data + more, position + len(more)
        return Piece(data, position, missed)

    def end(self) -> int:
        segments = self._segments()
        return segments[-1][0] + _size(segments[-1][1]) if segments else 0

    def written_at(self) -> float:
        segments = self._segments()
        return _modified(segments[-1][1]) if segments else 0.0

    def discard(self, position: int) -> None:
        """Remove the files that end before `position`; never the newest. Raises OSError."""
        segments = self._segments()
        for (_, path), (following, _) in pairwise(segments):
            if following <= position:
                path.unlink(missing_ok=True)

    def _segments(self) -> list[tuple[int, Path]]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        matches = [match for name in names if (match := SEGMENT.fullmatch(name)) and match[1] == self._name]
        return sorted((int(match[2]), self._folder / match[0]) for match in matches)


class Plain:
    """One file that only grows; when it has become shorter it is read again from its start. It lies in a folder of the
    worker's user, so with `owner` (a uid) only a file of that user is read, whatever a link makes of its name."""

    def __init__(self, path: Path, stream: str, owner: int | None = None) -> None:
        self._path, self.stream, self._owner = path, stream, owner

    def read(self, position: int, limit: int) -> Piece:
        if position > _size(self._path):
            position = 0
        data = _read(self._path, position, limit, self._owner)
        return Piece(data, position + len(data))

    def end(self) -> int:
        return _size(self._path)

    def written_at(self) -> float:
        return _modified(self._path)


def tail(source: Source, limit: int) -> str:
    """The last `limit` bytes as text."""
    end = source.end()
    position, data = max(0, end - limit), b""
    while position < end and (piece := source.read(position, end - position)).data:
        data, position = data + piece.data, piece.position
    return data[-limit:].decode(errors="replace")


def discover(streams: Path, logs: Path, pattern: str | None, first_rank: int) -> dict[int | None, dict[str, Source]]:
    """All sources by global rank (None: the worker's own), each under a name that stays the same. Below `logs`,
    `pattern` finds the files of ranks: groups `rank` (local) and `stream`."""
    found: dict[int | None, dict[str, Source]] = {}
    owner = _owner(logs)
    for name in sorted({match[1] for path in _names(streams) if (match := SEGMENT.fullmatch(path))}):
        rank = None if name == "worker" else int(name.removeprefix("rank-"))
        found.setdefault(rank, {})[name] = Rotated(streams, name)
    for path in sorted(_names(logs)) if pattern else ():
        if match := re.search(pattern or "", path):
            groups = match.groupdict()
            rank = first_rank + int(groups["rank"]) if (groups.get("rank") or "").isdigit() else None
            found.setdefault(rank, {})[f"logs/{path}"] = Plain(logs / path, groups.get("stream") or "output", owner)
    return found


def _owner(folder: Path) -> int | None:
    """None when it is our own."""
    try:
        uid = folder.stat().st_uid
    except OSError:
        return None
    return None if uid == os.geteuid() else uid


def _names(folder: Path) -> list[str]:
    """Relative paths of the files below `folder`."""
    return [os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names]


def _read(path: Path, offset: int, limit: int, owner: int | None = None) -> bytes:
    try:
        with open(path, "rb") as file:
            if owner is not None and os.fstat(file.fileno()).st_uid != owner:
                return b""
            file.seek(offset)
            return file.read(limit)
    except OSError:
        return b""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
