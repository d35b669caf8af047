"""Logs on their way to the store: no hole, no repeat, whatever breaks and whatever the bytes are."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.runtime import shipping
from agents.runtime.shipping import LogStream, Mark, load_marks, save_marks, whole
from agents.runtime.sources import Piece, Plain, Rotated, discover, tail

LIMIT = 2**30


class Memory:
    """A source in memory; `gone` bytes at its start have been rotated away."""

    stream = "output"

    def __init__(self, data: bytes = b"", gone: int = 0) -> None:
        self.data, self.gone = data, gone

    def read(self, position: int, limit: int) -> Piece:
        missed = max(0, self.gone - position)
        position += missed
        data = self.data[position : position + min(limit, 7)]
        return Piece(data, position + len(data), missed)

    def end(self) -> int:
        return len(self.data)

    def written_at(self) -> float:
        return 1.0


def store(
    stream: LogStream, sources: dict[str, Memory], *, final: bool = True, into: bytearray | None = None
) -> bytearray:
    """Send and acknowledge until there is nothing left."""
    data = bytearray() if into is None else into
    while (piece := stream.next(sources, final=final)) is not None:
        encoded = piece.text.encode()
        data[piece.offset : piece.offset + len(encoded)] = encoded
        stream.acknowledge(piece.offset + len(encoded))
    return data


@given(st.text(), st.lists(st.sampled_from(["send", "ack", "break", "restart", "write"]), max_size=40))
def test_the_store_has_the_text_whatever_breaks(text: str, steps: list[str]) -> None:
    encoded = text.encode()
    source, sources = Memory(), {}
    sources["a"] = source
    stream, data = LogStream(LIMIT), bytearray()
    for step in steps:
        if step == "write":
            source.data = encoded[: len(source.data) + 5]
        elif step == "send" and (piece := stream.next(sources, final=False)):
            data[piece.offset : piece.offset + len(piece.text.encode())] = piece.text.encode()
        elif step == "ack":
            stream.acknowledge(len(data))
        elif step == "break":
            stream.rewind()
        elif step == "restart":
            stream = LogStream(LIMIT, stream.acked)
    source.data = encoded
    stream.rewind()
    assert store(stream, sources, into=data).decode() == text
    assert stream.drained(sources)


@given(st.text(min_size=8), st.lists(st.sampled_from(["send", "lose", "ack", "break"]), max_size=40))
def test_what_is_lost_on_the_way_is_sent_again_although_what_came_later_is_acknowledged(
    text: str, steps: list[str]
) -> None:
    encoded = text.encode()
    sources, stream, data, acks = {"a": Memory(encoded)}, LogStream(LIMIT), bytearray(), list[tuple[int, int]]()
    for step in steps:
        if step in ("send", "lose") and (piece := stream.next(sources, final=True)):
            sent = piece.text.encode()
            if step == "send":
                data.extend(bytes(max(0, piece.offset - len(data))))
                data[piece.offset : piece.offset + len(sent)] = sent
                acks.append((piece.offset, piece.offset + len(sent)))
        elif step == "ack" and acks:
            begin, end = acks.pop(0)
            stream.acknowledge(end, begin)
        elif step == "break":
            stream.rewind()
        assert data[: stream.acked.offset] == encoded[: stream.acked.offset]
    stream.rewind()
    assert store(stream, sources, into=data).decode() == text


def test_a_gap_is_mended_at_once_and_without_a_storm() -> None:
    sources, stream = {"a": Memory(b"x" * 35)}, LogStream(LIMIT)
    sent = [stream.next(sources, final=True) for _ in range(5)]
    assert stream.next(sources, final=True) is None
    for piece in sent[1:]:
        assert piece is not None
        stream.acknowledge(piece.offset + len(piece.text), piece.offset)
    assert stream.acked.offset == 0
    assert [stream.next(sources, final=True) for _ in range(6)] == [*sent, None], "each is sent again once"


@given(st.binary())
def test_bytes_that_are_no_text_are_replaced_and_counted_as_sent(raw: bytes) -> None:
    data = store(LogStream(LIMIT), {"a": Memory(raw)})
    assert data.decode() == data.decode()
    if not any(byte > 127 for byte in raw):
        assert bytes(data) == raw


@given(st.text(min_size=1), st.integers(0, 8))
def test_a_character_is_never_cut(text: str, cut: int) -> None:
    data = text.encode()[: max(1, len(text.encode()) - cut)]
    data[: whole(data)].decode()
    assert len(data) - whole(data) <= 3


def test_too_much_unacknowledged_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "WINDOW", 10)
    stream, sources = LogStream(LIMIT), {"a": Memory(b"x" * 100)}
    sent = [stream.next(sources, final=False) for _ in range(5)]
    assert [piece is not None for piece in sent] == [True, True, False, False, False]
    stream.acknowledge(7)
    assert stream.next(sources, final=False) is not None


def test_bytes_that_were_rotated_away_leave_a_marker() -> None:
    data = store(LogStream(LIMIT), {"a": Memory(b"0123456789end", gone=10)}).decode()
    assert data.endswith("end")
    assert "10 bytes are gone" in data


def test_two_sources_of_one_rank_are_one_stream() -> None:
    data = store(LogStream(LIMIT), {"out": Memory(b"aaaa"), "err": Memory(b"bbbb")})
    assert sorted(data.decode()) == sorted("aaaabbbb")


def test_of_a_log_beyond_its_limit_the_begin_and_the_end_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "LAST_WORDS", 6)
    stream, source = LogStream(20), Memory(b"begin:" + b"x" * 100)
    sources = {"a": source}
    data = store(stream, sources, final=False)
    assert len(data) == 21
    source.data += b"!end!!"
    data = store(stream, sources, into=data)
    assert data.startswith(b"begin:xxx")
    assert data.endswith(b"!end!!")
    assert b"85 bytes left out" in data
    assert stream.drained(sources)


def test_each_text_is_searched_once() -> None:
    seen: list[str] = []
    stream, sources = LogStream(LIMIT, on_text=seen.append), {"a": Memory(b"abc")}
    stream.next(sources, final=False)
    stream.rewind()
    store(stream, sources)
    assert seen == ["abc"]


def test_marks_are_remembered_and_a_torn_file_starts_again(tmp_path: Path) -> None:
    path = tmp_path / "shipped.json"
    assert load_marks(path) == {}
    save_marks(path, {"rank-0": Mark(5, {"a": 4})})
    assert load_marks(path) == {"rank-0": Mark(5, {"a": 4})}
    path.write_text('{"rank-0": {"off')
    assert load_marks(path) == {}


def segment(folder: Path, name: str, offset: int, data: bytes) -> None:
    (folder / f"{name}.{offset:020d}.log").write_bytes(data)


def test_rotated_files_read_as_one_stream(tmp_path: Path) -> None:
    segment(tmp_path, "rank-0", 0, b"01234")
    segment(tmp_path, "rank-0", 5, b"56789")
    segment(tmp_path, "rank-1", 0, b"other")
    source = Rotated(tmp_path, "rank-0")
    assert source.read(3, 100) == Piece(b"3456789", 10)
    assert source.read(3, 4) == Piece(b"3456", 7)
    assert source.read(5, 2) == Piece(b"56", 7)
    assert source.read(10, 100) == Piece(b"", 10)
    assert source.end() == 10
    assert tail(source, 7) == "3456789"
    (tmp_path / f"rank-0.{0:020d}.log").unlink()
    assert source.read(3, 100) == Piece(b"56789", 10, missed=2)


def test_a_plain_file_that_became_shorter_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    source = Plain(path, "stdout")
    assert source.read(0, 10) == Piece(b"", 0)
    path.write_bytes(b"hello")
    assert source.read(2, 10) == Piece(b"llo", 5)
    path.write_bytes(b"new")
    assert source.read(5, 10) == Piece(b"new", 3)


def test_sources_are_found_by_rank(tmp_path: Path) -> None:
    streams, logs = tmp_path / "streams", tmp_path / "logs"
    (logs / "torchrun" / "job-1" / "attempt_0" / "1").mkdir(parents=True)
    streams.mkdir()
    segment(streams, "worker", 0, b"")
    for name in ("stdout", "stderr"):
        (logs / "torchrun" / "job-1" / "attempt_0" / "1" / f"{name}.log").touch()
    (logs / "other.txt").touch()
    regex = r"torchrun/[^/]+/attempt_\d+/(?P<rank>\d+)/(?P<stream>stdout|stderr)\.log"
    found = discover(streams, logs, regex, first_rank=4)
    assert {rank: sorted(source.stream for source in sources.values()) for rank, sources in found.items()} == {
        None: ["output"],
        5: ["stderr", "stdout"],
    }
    assert discover(streams, logs, None, 4).keys() == {None}
