"""All log streams of one worker: found, shipped, remembered, and their last words."""

from collections.abc import Callable

from agents.runtime.folder import Folder
from agents.runtime.shipping import LogStream, Mark, load_marks, save_marks
from agents.runtime.sources import Rotated, Source, discover, tail
from muster.evidence import Evidence
from muster.evidence import Source as EvidenceSource
from muster.protocol import Assignment, LogChunk

TAIL = 8 * 1024
"""Bytes of each rank's log that go with the report of its end."""
SAVE = 4 * 2**20
"""Acknowledged bytes of a stream that never rests, after which they are remembered."""


class WorkerLogs:
    """`on_text` sees each piece of each stream once, in order."""

    def __init__(self, folder: Folder, assignment: Callable[[], Assignment], on_text: Callable[[str], None]) -> None:
        self._folder, self._assignment, self._on_text = folder, assignment, on_text
        self._marks = load_marks(folder.shipped)
        self._sources: dict[int | None, dict[str, Source]] = {}
        self._streams: dict[int | None, LogStream] = {}
        self._turn: list[int | None] = []
        self._saved: dict[str, int] = {}

    def look(self) -> None:
        """Find files that have appeared."""
        template = self._assignment().template
        pattern = template.log_pattern.regex if template.log_pattern else None
        self._sources = discover(self._folder.streams, self._folder.logs, pattern, template.first_rank)
        for rank in self._sources.keys() - self._streams.keys():
            mark = self._marks.get(_name(rank), Mark())
            self._streams[rank] = LogStream(self._assignment().log_limit, mark, self._on_text)
            self._turn.append(rank)

    def sources(self, rank: int | None) -> dict[str, Source]:
        return self._sources.get(rank, {})

    def next(self, *, final: bool) -> LogChunk | None:
        """Streams take turns, so that one which prints much delays no other."""
        for place, rank in enumerate(self._turn):
            piece = self._streams[rank].next(self._sources[rank], final=final)
            if piece is not None:
                self._turn.append(self._turn.pop(place))
                return LogChunk(
                    worker_uid=self._assignment().worker_uid,
                    attempt=self._assignment().attempt,
                    rank=rank,
                    offset=piece.offset,
                    data=piece.text,
                )
        return None

    def acknowledge(self, rank: int | None, offset: int, begin: int | None = None) -> None:
        """Raises OSError when it cannot be remembered. What is remembered is not needed here any more."""
        stream, name = self._streams.get(rank), _name(rank)
        if stream is None or not stream.acknowledge(offset, begin):
            return
        self._marks[name] = stream.acked
        if stream.in_flight and stream.acked.offset - self._saved.get(name, 0) < SAVE:
            return
        save_marks(self._folder.shipped, self._marks)
        self._saved[name] = stream.acked.offset
        for source_name, source in self._sources.get(rank, {}).items():
            if isinstance(source, Rotated):
                source.discard(stream.acked.positions.get(source_name, 0))

    def rewind(self) -> None:
        for stream in self._streams.values():
            stream.rewind()

    def drained(self) -> bool:
        """Ask after `look`, when nobody writes any more."""
        return all(stream.drained(self._sources[rank]) for rank, stream in self._streams.items())

    def tails(self, node: str) -> list[Evidence]:
        """The end of every file, as evidence."""
        ranks = sorted(self._sources.items(), key=lambda item: -1 if item[0] is None else item[0])
        return [
            self._tail(node, rank, source, text)
            for rank, sources in ranks
            for source in sources.values()
            if (text := tail(source, TAIL // len(sources)))
        ]

    def _tail(self, node: str, rank: int | None, source: Source, text: str) -> Evidence:
        return Evidence(
            source=EvidenceSource.LOG,
            at=source.written_at(),
            attempt=self._assignment().attempt,
            node=node,
            role=self._assignment().role,
            worker=self._assignment().index,
            rank=rank,
            text=text,
            data={"stream": source.stream},
        )


def _name(rank: int | None) -> str:
    return "worker" if rank is None else f"rank-{rank}"
