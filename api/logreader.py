"""Reading logs back: which files belong to a question, their last lines, and what is added to them."""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from api.logstore import LogFile, LogStore, Place
from api.problems import not_found
from controller.records import WorkerRecord
from muster.problems import FieldError, Problem

CHUNK: Final = 256 * 1024
TAIL_CHUNK: Final = 64 * 1024


class Selection(Struct, frozen=True, kw_only=True):
    """Which streams of an attempt. `rank` "worker" is what the workers' own processes wrote beside their ranks. With
    nothing said: the first rank and its worker."""

    role: str | None = None
    worker: int | None = None
    rank: int | Literal["worker"] | None = None
    all_ranks: bool = False


class Source(Struct, frozen=True):
    """One file and the words before each of its lines."""

    file: LogFile
    prefix: bytes


def parse_rank(text: str | None) -> int | Literal["worker"] | None:
    """Raises Problem 422."""
    if text is None or text == "worker":
        return text  # type: ignore[return-value]
    if text.isascii() and text.isdigit():
        return int(text)
    error = FieldError("query.rank", "expected the number of a rank, or worker", found=text[:100])
    raise Problem(422, "INVALID", "The request is not valid", errors=(error,))


def sources(store: LogStore, workers: Sequence[WorkerRecord], wanted: Selection) -> list[Source]:
    """In the order of workers and ranks. Raises Problem 404 when the attempt has no such worker or rank."""
    chosen = [
        one
        for one in workers
        if (wanted.role is None or one.role == wanted.role) and (wanted.worker is None or one.index == wanted.worker)
    ]
    if not chosen:
        raise not_found("Worker", f"{wanted.role or 'worker'}-{wanted.worker or 0}")
    streams = [(one, rank) for one in chosen for rank in _ranks(one)]
    if isinstance(wanted.rank, int):
        streams = [(one, rank) for one, rank in streams if rank == wanted.rank]
        if not streams:
            raise not_found("Rank", str(wanted.rank))
    elif wanted.rank == "worker":
        streams = [(one, None) for one in chosen]
    elif not wanted.all_ranks and wanted.worker is None:
        streams = [(one, rank) for one, rank in streams if one is chosen[0] and rank in (None, _first(one))]
    prefixed = wanted.all_ranks or (wanted.worker is not None and wanted.rank is None)
    return [Source(store.file(Place.of(one), rank), _prefix(one, rank) if prefixed else b"") for one, rank in streams]


def _ranks(worker: WorkerRecord) -> list[int | None]:
    return [None, *range(_first(worker), _first(worker) + worker.template.ranks)]


def _first(worker: WorkerRecord) -> int:
    return worker.template.first_rank


def _prefix(worker: WorkerRecord, rank: int | None) -> bytes:
    name = f"{worker.role}-{worker.index}"
    return f"[{name}] ".encode() if rank is None else f"[{name} rank {rank}] ".encode()


class Cursor:
    """How far one file has been read. Only whole lines come out, until `finish`."""

    def __init__(self, source: Source, tail: int | None = None) -> None:
        self._source = source
        self._position: int | None = None
        self._tail = tail
        self._rest = b""

    def read(self) -> bytes:
        """What is new, in whole lines when lines have prefixes. Empty when nothing is, or there is no file yet. Raises
        OSError."""
        try:
            file = self._source.file
            if self._position is None:
                self._position = _tail_at(file, self._tail)
            data, self._position = file.read(self._position, CHUNK)
        except FileNotFoundError:
            return b""
        if not self._source.prefix:
            return data
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest
        return self._prefixed(whole + newline)

    def finish(self) -> bytes:
        """What is left without an end of line."""
        rest, self._rest = self._rest, b""
        return self._prefixed(rest + b"\n") if rest else b""

    def _prefixed(self, lines: bytes) -> bytes:
        """Carriage returns of progress bars do not end a line."""
        prefix = self._source.prefix
        return b"".join(prefix + line + b"\n" for line in lines[:-1].split(b"\n")) if lines else b""


def _tail_at(file: LogFile, lines: int | None) -> int:
    """Where the last `lines` lines begin; 0 for None. A last line may lack its end."""
    if lines is None:
        return 0
    end = file.size()
    if lines == 0 or end == 0:
        return end
    missing = lines + (file.read(end - 1, 1)[0] == b"\n")
    position = end
    while position > 0:
        begin = max(0, position - TAIL_CHUNK)
        block = _block(file, begin, position)
        found = len(block)
        while missing and (found := block.rfind(b"\n", 0, found)) >= 0:
            missing -= 1
        if not missing:
            return begin + found + 1
        position = begin
    return 0


def _block(file: LogFile, begin: int, end: int) -> bytes:
    """All bytes from `begin` to `end`, zeros where there is a hole."""
    block = bytearray(end - begin)
    position = begin
    while position < end:
        data, behind = file.read(position, end - position)
        if behind <= position:
            break
        block[behind - len(data) - begin : behind - begin] = data
        position = behind
    return bytes(block)
