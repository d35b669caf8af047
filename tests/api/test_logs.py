"""Logs go into a folder piece by piece, and come out in lines."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from starlette.testclient import TestClient

from api import logbucket, logreader, logretention
from api.logbucket import BucketStore
from api.logintake import runs
from api.logreader import Cursor, Source
from api.logstore import LIMIT, FolderFile, FolderStore, Place, open_log_store
from api.services import Services
from controller.records import WorkerRecord
from controller.state import retention
from muster.client import Client
from muster.launch import LaunchTemplate
from muster.protocol import LogChunk
from muster.states import AttemptPhase, JobPhase
from tests.api.conftest import JOBS, eventually
from tests.makers import make_attempt, make_job, make_worker

PLACE = Place("ns/job/attempt/worker-0", first_rank=0, ranks=4)
lines = st.lists(st.binary(max_size=30).map(lambda one: one.replace(b"\0", b"").replace(b"\n", b"")), max_size=40)


class TestStore:
    @given(st.binary(min_size=1, max_size=500), st.integers(0, 2**32), st.integers(1, 60))
    def test_pieces_in_any_order_and_repeated_make_the_same_file(
        self, tmp_path_factory: pytest.TempPathFactory, text: bytes, seed: int, size: int
    ) -> None:
        store = FolderStore(tmp_path_factory.mktemp("logs"))
        pieces = [(at, text[at : at + size]) for at in range(0, len(text), size)] * 2
        random.Random(seed).shuffle(pieces)
        for at, piece in pieces:
            store.append(PLACE, 0, at, piece)
        assert store.path(PLACE, 0).read_bytes() == text

    @given(st.binary(min_size=1, max_size=500), st.integers(0, 2**32), st.integers(1, 60))
    def test_a_bucket_has_the_same_whoever_wrote_it_and_in_which_order(self, text: bytes, seed: int, size: int) -> None:
        randomness, filesystem = random.Random(seed), fsspec.filesystem("memory", skip_instance_cache=True)
        filesystem.store, filesystem.pseudo_dirs = {}, [""]
        writers = [BucketStore(filesystem, "/bucket") for _ in range(2)]
        logbucket.PIECE, kept = 100, logbucket.PIECE  # type: ignore[misc]
        try:
            pieces = [(at, text[at : at + size]) for at in range(0, len(text), size)]
            again = randomness.sample(pieces, len(pieces) // 2)
            for at, piece in [*pieces, *again]:
                randomness.choice(writers).append(PLACE, 0, at, piece)
        finally:
            logbucket.PIECE = kept  # type: ignore[misc]
        file, position, found = writers[0].file(PLACE, 0), 0, b""
        while (read := file.read(position, 64))[0]:
            found, position = found + read[0], read[1]
        assert (found, file.size()) == (text, len(text))
        assert Cursor(Source(writers[1].file(PLACE, 0), b""), tail=0).read() == b""
        assert writers[0].held()[("ns", "job")].size >= len(text)
        writers[1].remove_job("ns", "job")
        writers[1].remove_job("ns", "job")
        assert writers[0].held() == {}

    def test_a_bucket_of_a_file_system_that_is_not_there_says_so(self) -> None:
        with pytest.raises(ValueError, match="buckets"):
            open_log_store("nosuch://bucket/logs")

    def test_streams_lie_apart(self, tmp_path: Path) -> None:
        store = FolderStore(tmp_path)
        for rank in (None, 0, 3):
            store.append(PLACE, rank, 0, str(rank).encode())
        folder = tmp_path / "ns" / "job" / "attempt" / "worker-0"
        assert {path.name: path.read_text() for path in folder.iterdir()} == {
            "worker.log": "None",
            "rank-0.log": "0",
            "rank-3.log": "3",
        }

    def test_what_is_beyond_the_limit_is_dropped(self, tmp_path: Path) -> None:
        store = FolderStore(tmp_path)
        store.append(PLACE, 0, LIMIT, b"x")
        assert not store.path(PLACE, 0).exists()

    def test_a_removed_job_leaves_its_neighbours(self, tmp_path: Path) -> None:
        store, other = FolderStore(tmp_path), Place("ns/other/a/worker-0", 0, 1)
        store.append(PLACE, 0, 0, b"x")
        store.append(other, 0, 0, b"y")
        store.remove_job("ns", "job")
        store.remove_job("ns", "never-was")
        assert [path.name for path in (tmp_path / "ns").iterdir()] == ["other"]


class TestCursor:
    @given(lines, st.integers(0, 50), st.booleans())
    def test_the_tail_is_the_last_lines(
        self, tmp_path_factory: pytest.TempPathFactory, written: list[bytes], tail: int, open_end: bool
    ) -> None:
        path = tmp_path_factory.mktemp("logs") / "log"
        text = b"".join(one + b"\n" for one in written)
        text = text[:-1] if open_end else text
        path.write_bytes(text)
        logreader.TAIL_CHUNK, kept = 16, logreader.TAIL_CHUNK  # type: ignore[misc]
        try:
            found = Cursor(Source(FolderFile(path), b""), tail).read()
        finally:
            logreader.TAIL_CHUNK = kept  # type: ignore[misc]
        expected = text.split(b"\n")
        last = expected[-1:] if expected[-1] else []
        whole = [one + b"\n" for one in expected[:-1]] + last
        assert found == b"".join(whole[max(0, len(whole) - tail) :])

    @given(lines, st.integers(1, 40))
    def test_prefixed_lines_are_whole_however_they_arrive(
        self, tmp_path_factory: pytest.TempPathFactory, written: list[bytes], size: int
    ) -> None:
        path = tmp_path_factory.mktemp("logs") / "log"
        text, found = b"".join(one + b"\n" for one in written) + b"end", b""
        cursor = Cursor(Source(FolderFile(path), b"[p] "))
        assert cursor.read() == b""
        for at in range(0, len(text), size):
            with path.open("ab") as file:
                file.write(text[at : at + size])
            found += cursor.read()
        found += cursor.finish()
        assert found.split(b"\n") == [b"[p] " + one for one in [*written, b"end"]] + [b""]

    def test_holes_are_skipped(self, tmp_path: Path) -> None:
        store = FolderStore(tmp_path)
        store.append(PLACE, 0, 0, b"before\n")
        store.append(PLACE, 0, 100_000, b"after\n")
        assert Cursor(Source(store.file(PLACE, 0), b"")).read() == b"before\nafter\n"


@pytest.fixture
def workers(here: Services) -> list[WorkerRecord]:
    """Two workers of two ranks each, with something in every log."""
    job = make_job(phase=JobPhase.RUNNING, attempt_uid="job-train-a1")
    attempt = make_attempt(job, phase=AttemptPhase.RUNNING)
    made = [
        make_worker(attempt, index, template=LaunchTemplate(framework="command", processes=(("x",),), first_rank=2 * index, ranks=2))
        for index in range(2)
    ]  # fmt: skip
    for one in made:
        place = Place.of(one)
        here.logs.append(place, None, 0, f"launcher {one.index}\n".encode())
        for rank in (2 * one.index, 2 * one.index + 1):
            here.logs.append(place, rank, 0, f"first of {rank}\nlast of {rank}\n".encode())
    here.write(lambda w: (w.insert_job(job), w.insert_attempt(attempt), w.insert_workers(made)))
    return made


def finish(here: Services) -> None:
    def act(w: Any) -> None:
        w.move_attempt("job-train-a1", AttemptPhase.ENDED, ended_at=here.clock.now())
        w.move_job("job-train", JobPhase.SUCCEEDED, attempt_uid=None, finished_at=here.clock.now())

    here.write(act)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "launcher 0\nfirst of 0\nlast of 0\n"),
        ("?tail=1", "launcher 0\nlast of 0\n"),
        ("?tail=0", ""),
        ("?rank=3", "first of 3\nlast of 3\n"),
        ("?rank=3&tail=1", "last of 3\n"),
        ("?rank=worker", "launcher 0\nlauncher 1\n"),
        ("?rank=worker&worker=1", "launcher 1\n"),
        ("?worker=1&tail=1", "[worker-1] launcher 1\n[worker-1 rank 2] last of 2\n[worker-1 rank 3] last of 3\n"),
        ("?allRanks=1&rank=0", "[worker-0 rank 0] first of 0\n[worker-0 rank 0] last of 0\n"),
        ("?attempt=1&rank=0&role=worker", "first of 0\nlast of 0\n"),
    ],
)  # fmt: skip
def test_what_is_asked_for_comes_out(
    admin: TestClient, here: Services, workers: list[WorkerRecord], query: str, expected: str
) -> None:
    answer = admin.get(f"{JOBS}/train/logs{query}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert answer.text == expected


def test_all_ranks_say_where_each_line_is_from(admin: TestClient, here: Services, workers: list[WorkerRecord]) -> None:
    found = admin.get(f"{JOBS}/train/logs?allRanks=1&tail=1").text.splitlines()
    assert found == [
        "[worker-0] launcher 0",
        "[worker-0 rank 0] last of 0",
        "[worker-0 rank 1] last of 1",
        "[worker-1] launcher 1",
        "[worker-1 rank 2] last of 2",
        "[worker-1 rank 3] last of 3",
    ]


@pytest.mark.parametrize("query", ["?rank=9", "?worker=7", "?role=head", "?attempt=2", "?attempt=2&follow=1"])
def test_what_there_is_none_of_is_404(
    admin: TestClient, here: Services, workers: list[WorkerRecord], query: str
) -> None:
    assert admin.get(f"{JOBS}/train/logs{query}").status_code == 404


def test_a_finished_job_still_has_its_logs(admin: TestClient, here: Services, workers: list[WorkerRecord]) -> None:
    finish(here)
    assert admin.get(f"{JOBS}/train/logs?rank=0").text == "first of 0\nlast of 0\n"


def test_following_a_job_that_ended_long_ago_ends_at_once(
    admin: TestClient, here: Services, workers: list[WorkerRecord], clock: Any
) -> None:
    finish(here)
    clock.advance(60)
    assert admin.get(f"{JOBS}/train/logs?rank=0&follow=1").text == "first of 0\nlast of 0\n"


def test_a_job_that_never_had_an_attempt_has_none(admin: TestClient, here: Services) -> None:
    here.write(lambda w: w.insert_job(make_job(phase=JobPhase.CANCELLED)))
    for query in ("", "?follow=1"):
        answer = admin.get(f"{JOBS}/train/logs{query}")
        assert (answer.status_code, answer.json()["code"]) == (404, "NO_ATTEMPT")


def test_following_goes_on_until_the_attempt_has_ended_and_all_was_sent(
    client: Client, here: Services, workers: list[WorkerRecord], clock: Any, append: Callable[[bytes], None]
) -> None:
    pieces = client.logs("train", rank=0, follow=True)
    assert next(pieces) == b"first of 0\nlast of 0\n"
    append(b"more\n")
    assert next(pieces) == b"more\n"
    finish(here)
    append(b"the last words\n")
    assert next(pieces) == b"the last words\n"
    clock.advance(5)
    assert list(pieces) == []


@pytest.fixture
def append(here: Services, workers: list[WorkerRecord]) -> Callable[[bytes], None]:
    """Something more in rank 0's log."""
    place = Place.of(workers[0])

    def act(data: bytes) -> None:
        here.logs.append(place, 0, here.logs.file(place, 0).size(), data)

    return act


def test_following_waits_for_the_first_attempt(client: Client, here: Services, clock: Any) -> None:
    here.write(lambda w: w.insert_job(make_job()))
    pieces = client.logs("train", follow=True)
    attempt = make_attempt(make_job())
    worker = make_worker(attempt)
    here.logs.append(Place.of(worker), 0, 0, b"hello\n")
    here.write(lambda w: (w.insert_attempt(attempt), w.insert_worker(worker)))
    assert next(pieces) == b"hello\n"
    here.write(lambda w: w.move_job("job-train", JobPhase.STARTING, attempt_uid=attempt.uid))
    finish(here)
    clock.advance(5)
    assert list(pieces) == []


def test_following_ends_with_the_server(client: Client, here: Services, workers: list[WorkerRecord]) -> None:
    pieces = client.logs("train", rank=0, follow=True)
    next(pieces)
    here.follower.stop()
    assert list(pieces) == []


def test_a_reader_that_leaves_is_forgotten(client: Client, here: Services, workers: list[WorkerRecord]) -> None:
    pieces = client.logs("train", rank=0, follow=True)
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    eventually(lambda: here.log_readers.borrowed_tokens == 0)


def test_chunks_that_follow_each_other_are_one_append() -> None:
    def chunk(rank: int | None, offset: int, data: str) -> LogChunk:
        return LogChunk(worker_uid="w", attempt="a", rank=rank, offset=offset, data=data)

    found = runs([chunk(0, 0, "ab"), chunk(1, 5, "x"), chunk(0, 2, "ç"), chunk(0, 4, "d"), chunk(0, 9, "late")])
    assert [(one.rank, one.offset, one.data) for one in found] == [
        (0, 0, "abçd".encode()),
        (0, 9, b"late"),
        (1, 5, b"x"),
    ]


def test_logs_of_finished_jobs_go_by_age_and_size_those_of_the_living_never(here: Services, clock: Any) -> None:
    keep = retention.parse(
        '{"logs": {"days": 10, "bytes": 30000}, "namespaces": {"loud": {"logs": {"days": 10, "bytes": 1}}}}'
    )
    object.__setattr__(here, "settings", replace(here.settings, retention=keep))
    now = here.clock.now()

    def make(name: str, namespace: str, finished: float | None) -> None:
        phase = JobPhase.RUNNING if finished is None else JobPhase.SUCCEEDED
        made = make_job(name, namespace=namespace, phase=phase, finished_at=finished)
        here.write(lambda w: w.insert_job(made))
        here.logs.append(Place(f"{namespace}/{made.uid}/a/worker-0", 0, 1), 0, 0, b"x" * 9000)

    make("alive", "loud", None)
    make("ended", "loud", now)
    make("old", "default", now - 11 * 86400)
    make("first", "default", now - 300)
    make("second", "default", now - 200)
    make("third", "default", now - 100)
    here.logs.append(Place("default/unknown/a/worker-0", 0, 1), 0, 0, b"of a job that this database does not know")
    assert sorted(logretention.prune(here)) == ["job-ended", "job-first", "job-old"]
    assert sorted(uid for _, uid in here.logs.held()) == ["job-alive", "job-second", "job-third", "unknown"]
