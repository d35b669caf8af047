"""Logs in a bucket, or wherever else fsspec reaches: .../rank-N.log/START-END, objects that never change.

Nothing can be appended to an object, so a writer writes the piece it has grown once more, longer, and then removes
the shorter one. Several API processes may write one stream after each other, even at the same time: pieces that overlap
are equal where they do, and a reader takes the longest."""

import re
from collections import Counter, OrderedDict
from typing import Any, Final

from msgspec import Struct

from api.logstore import LIMIT, Held, LogFile, Place

PIECE: Final = 256 * 1024
"""Bytes from which on a piece is not written again."""
GROWING: Final = 512
"""Pieces that this process remembers the text of."""
_NAME: Final = re.compile(r"(\d{20})-(\d{20})")


class Piece(Struct, frozen=True):
    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    @property
    def name(self) -> str:
        return f"{self.start:020d}-{self.end:020d}"


class BucketStore:
    """`filesystem` is one of fsspec's, `root` the folder in it."""

    gather = 2.0

    def __init__(self, filesystem: Any, root: str) -> None:
        self._fs, self._root = filesystem, root.rstrip("/")
        self._growing: OrderedDict[str, Piece] = OrderedDict()

    @classmethod
    def at(cls, url: str) -> "BucketStore":
        """Raises ValueError."""
        try:
            from fsspec.core import url_to_fs

            return cls(*url_to_fs(url))  # type: ignore[no-untyped-call]
        except (ImportError, ValueError) as error:
            raise ValueError(
                f"{url} cannot be used as a log store: {error} (pip install 'muster-cluster[buckets]' and "
                "the file system's own package, e.g. s3fs)"
            ) from error

    def prepare(self) -> None:
        self._fs.makedirs(self._root, exist_ok=True)

    def file(self, place: Place, rank: int | None) -> LogFile:
        return BucketFile(self._fs, f"{self._root}/{place.name(rank)}")

    def append(self, place: Place, rank: int | None, offset: int, data: bytes) -> None:
        if offset + len(data) > LIMIT or not data:
            return
        folder = f"{self._root}/{place.name(rank)}"
        before = self._growing.pop(folder, None)
        grows = before is not None and before.start <= offset <= before.end and len(before.data) < PIECE
        piece = Piece(offset, data)
        if grows and before is not None:
            piece = Piece(before.start, before.data[: offset - before.start] + data)
            if piece.end < before.end:
                piece = before
        self._fs.pipe_file(f"{folder}/{piece.name}", piece.data)
        self._growing[folder] = piece
        if len(self._growing) > GROWING:
            self._growing.popitem(last=False)
        if grows and before is not None and before.name != piece.name:
            try:
                self._fs.rm_file(f"{folder}/{before.name}")
            except FileNotFoundError:
                pass  # somebody else grew it, too

    def held(self) -> dict[tuple[str, str], Held]:
        self._fs.invalidate_cache()
        found: Counter[tuple[str, str]] = Counter()
        for path, about in self._fs.find(self._root, detail=True).items():
            parts = path.removeprefix(self._root).strip("/").split("/")
            if len(parts) > 2:
                found[(parts[0], parts[1])] += int(about["size"] or 0)
        return {job: Held(size) for job, size in found.items()}

    def remove_job(self, namespace: str, job_uid: str) -> None:
        try:
            self._fs.rm(f"{self._root}/{namespace}/{job_uid}", recursive=True)
        except FileNotFoundError:
            pass


class BucketFile:
    """Readers list the pieces when they come to the end of what they know."""

    def __init__(self, filesystem: Any, folder: str) -> None:
        self._fs, self._folder = filesystem, folder
        self._pieces: list[tuple[int, int]] = []

    def size(self) -> int:
        self._look()
        return max(end for _, end in self._pieces)

    def read(self, position: int, limit: int) -> tuple[bytes, int]:
        found = self._at(position)
        if found is None:
            self._look()
            found = self._at(position)
        if found is None:
            return b"", position
        start, end = found
        begin = max(position, start)
        name = f"{self._folder}/{start:020d}-{end:020d}"
        try:
            data: bytes = self._fs.cat_file(name, start=begin - start, end=min(end, begin + limit) - start)
        except FileNotFoundError:  # it has grown meanwhile, under another name
            self._pieces = []
            return b"", position
        return data, begin + len(data)

    def _at(self, position: int) -> tuple[int, int] | None:
        """The piece that has `position` and reaches furthest, else the next one."""
        having = [one for one in self._pieces if one[0] <= position < one[1]]
        behind = [one for one in self._pieces if one[0] > position]
        return max(having, key=lambda one: one[1]) if having else min(behind, default=None)

    def _look(self) -> None:
        """Raises FileNotFoundError."""
        self._fs.invalidate_cache(self._folder)
        names = (str(path).rpartition("/")[2] for path in self._fs.ls(self._folder, detail=False))
        self._pieces = sorted((int(m[1]), int(m[2])) for name in names if (m := _NAME.fullmatch(name)))
        if not self._pieces:
            raise FileNotFoundError(self._folder)
