"""Bring a worker's logs into the log store: numbered bytes, sent once, again only after a broken stream.

What is sent is a stream of its own: bytes that are lost on the node leave a marker line instead of a hole, and
whatever is not UTF-8 is replaced, so offsets count what was sent. `shipped.json` remembers, for each
acknowledged offset, where the sources were.
"""

from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from agents.runtime.folder import replace
from agents.runtime.sources import Source

CHUNK = 64 * 1024
WINDOW = 16 * CHUNK
"""Bytes of one stream on their way."""
LAST_WORDS = 64 * 1024
"""Bytes at the end that are kept of a log which is longer than its limit."""


class Mark(Struct, frozen=True):
    """Everything before `offset` of the sent stream was made of the sources up to `positions`."""

    offset: int = 0
    positions: dict[str, int] = {}


START = Mark()


class Text(Struct, frozen=True):
    """A piece to send. `positions` are the sources' behind it."""

    offset: int
    text: str


class LogStream:
    """One rank's log on its way. `limit` bounds the bytes sent; `on_text` sees every new text once."""

    def __init__(self, limit: int, mark: Mark = START, on_text: Callable[[str], None] | None = None) -> None:
        self._limit, self._acked, self._sent = limit, mark, mark
        self._pending: deque[Mark] = deque()
        self._seen = mark.offset
        self._on_text = on_text
        self._cut = False
        self._gap = -1

    @property
    def acked(self) -> Mark:
        return self._acked

    @property
    def in_flight(self) -> bool:
        return bool(self._pending)

    def next(self, sources: Mapping[str, Source], *, final: bool) -> Text | None:
        """The next piece; None when there is nothing new, or too much is unacknowledged. `final`: nobody writes any
        more."""
        if self._sent.offset - self._acked.offset >= WINDOW:
            return None
        if self._sent.offset >= self._limit and not self._cut:
            return self._last_words(sources) if final else None
        for name, source in sources.items():
            position = self._sent.positions.get(name, 0)
            piece = source.read(position, CHUNK)
            data = piece.data[: whole(piece.data)] or (piece.data if final else b"")
            if not data and not piece.missed:
                continue
            marker = f"\n[muster: {piece.missed} bytes are gone: the log grew faster than it was copied]\n" * (
                piece.missed > 0
            )
            behind = piece.position - len(piece.data) + len(data)
            return self._send(marker + data.decode(errors="replace"), {name: behind})
        return None

    def drained(self, sources: Mapping[str, Source]) -> bool:
        """Whether everything that there is has been sent and acknowledged. Ask when nobody writes any more."""
        ends = all(source.end() <= self._acked.positions.get(name, 0) for name, source in sources.items())
        return ends and not self._pending

    def acknowledge(self, offset: int, begin: int | None = None) -> bool:
        """Bytes from `begin` (None: from the first) up to `offset` are in the store. True when this is news. Where it
        leaves a gap, something was lost on the way: all behind what is known to be there is sent again, once."""
        if begin is not None and begin > self._acked.offset:
            if self._gap != self._acked.offset:
                self._gap = self._acked.offset
                self.rewind()
            return False
        before = self._acked
        while self._pending and self._pending[0].offset <= offset:
            self._acked = self._pending.popleft()
        return self._acked is not before

    def rewind(self) -> None:
        """The stream to the store broke: what is not acknowledged is sent again."""
        self._sent, self._cut = self._acked, False
        self._pending.clear()

    def _send(self, text: str, moved: Mapping[str, int]) -> Text:
        text_offset = self._sent.offset
        size = len(text.encode())
        self._sent = Mark(text_offset + size, {**self._sent.positions, **moved})
        self._pending.append(self._sent)
        if self._on_text is not None and text_offset >= self._seen:
            self._on_text(text)
        self._seen = max(self._seen, self._sent.offset)
        return Text(text_offset, text)

    def _last_words(self, sources: Mapping[str, Source]) -> Text | None:
        """Leave out the middle of a log that is too long."""
        moved = {}
        left_out = 0
        for name, source in sources.items():
            position = self._sent.positions.get(name, 0)
            begin = max(position, source.end() - LAST_WORDS // len(sources))
            left_out += begin - position
            moved[name] = begin
        self._cut = True
        if not left_out:
            return None
        return self._send(f"\n[muster: {left_out} bytes left out: the log is limited to {self._limit} bytes]\n", moved)


def whole(data: bytes) -> int:
    """How many bytes of `data` end at the end of a UTF-8 character (at most three are held back)."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return len(data) - back if needed > back else len(data)
    return len(data)


def load_marks(path: Path) -> dict[str, Mark]:
    """By stream name; empty when nothing was acknowledged yet, or the file is torn (then all is sent again)."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Mark])
    except (OSError, ValueError):
        return {}


def save_marks(path: Path, marks: Mapping[str, Mark]) -> None:
    """Raises OSError."""
    replace(path, msgspec.json.encode(marks))
