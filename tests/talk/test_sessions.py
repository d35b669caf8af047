"""exec, attach and port-forward, asked at an API process that does not have the worker's agent."""

import contextlib
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import time
from fcntl import ioctl

import pytest

from muster.channels import split
from tests.agents.cluster import PATIENCE
from tests.talk.conftest import House, alive, until

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def job(house: House) -> str:
    """Rank 0 prints when it is told to (a file), rank 1 listens on a port and says which."""
    listen = (
        'python3 -c \'import socket; s=socket.create_server(("127.0.0.1",0)); print(s.getsockname()[1],flush=True)\n'
        'while True:\n c,_=s.accept(); d=b""\n while p:=c.recv(65536): d+=p\n c.sendall(d[::-1]); c.close()\''
    )
    wait = "while [ ! -e go ]; do sleep 0.05; done; echo told; echo end >&2; exit 7"
    house.run(wait, listen, env={"COLOUR": "green"})
    return "train"


class TestExec:
    @pytest.mark.parametrize(
        ("command", "code", "out", "err"),
        [
            ("echo $COLOUR $RANK; echo wrong >&2; exit 3", 3, b"green\n", b"wrong\n"),
            ("kill -9 $$", 137, b"", b""),
            ("head -c 300000 /dev/zero | tr '\\0' x", 0, b"x" * 300_000, b""),
        ],
        ids=["its exit code is the command's", "a signal", "all of a long output arrives"],
    )
    def test_without_a_terminal(self, house: House, job: str, command: str, code: int, out: bytes, err: bytes) -> None:
        done = house.muster("exec", job, "--", "sh", "-c", command)
        found = done.communicate(timeout=PATIENCE)
        assert (done.returncode, *found) == (code, out, err)

    def test_standard_input_and_its_end(self, house: House, job: str) -> None:
        text = b"0123456789abcdef" * 20_000
        done = house.muster("exec", "-i", job, "--rank", "1", "--", "sort", "-r")
        assert done.communicate(text, timeout=PATIENCE)[0].strip() == text.strip()
        assert done.returncode == 0

    def test_what_cannot_be_executed(self, house: House, job: str) -> None:
        done = house.muster("exec", job, "--", "no-such-program")
        assert b"no-such-program cannot be executed: No such file" in done.communicate(timeout=PATIENCE)[1]
        assert done.returncode == 127

    @pytest.mark.parametrize(
        ("words", "says", "code"),
        [
            (("exec", "train", "--rank", "9", "--", "true"), b"no rank '9'", 3),
            (("exec", "train", "--worker", "server-0", "--", "true"), b"no worker 'server-0'", 3),
            (("exec", "other", "--", "true"), b"no job 'other'", 3),
            (("exec", "train", "--worker", "first", "--", "true"), b"expected ROLE-INDEX", 2),
        ],
    )
    def test_refusals_say_why(self, house: House, job: str, words: tuple[str, ...], says: bytes, code: int) -> None:
        done = house.muster(*words)
        assert says in done.communicate(timeout=PATIENCE)[1]
        assert done.returncode == code

    def test_a_command_that_nobody_listens_to_any_more_is_ended(self, house: House, job: str) -> None:
        done = house.muster("exec", job, "--", "sh", "-c", "trap '' HUP; echo $$; sleep 1000 & wait")
        assert done.stdout is not None
        pid = int(done.stdout.readline())
        assert alive(pid)
        done.kill()
        done.communicate()
        until(lambda: not alive(pid), "the command is gone")

    def test_who_ran_what_is_an_event(self, house: House, job: str) -> None:
        events = [one["message"] for one in house.client.parts(job, "events") if one["reason"] == "Exec"]
        assert any("admin ran `sort -r` in worker-0 on n0" in message for message in events)

    def test_no_row_is_left(self, house: House, job: str) -> None:
        def rows() -> bool:
            with house.here[0].store.read() as r:
                return not r.sessions()

        until(rows)


class TestTerminal:
    def test_a_terminal_has_the_size_of_ours_follows_it_and_ends_with_the_command(self, house: House, job: str) -> None:
        with _terminal(house, "exec", "-it", job, "--", "sh") as (master, process):
            _resize(master, 40, 120)
            process.send_signal(signal.SIGWINCH)
            os.write(master, b"PS1='# '; tty; echo $TERM; stty size; sleep 0.1\n")
            seen = _expect(master, rb"/dev/pts/\d+.*xterm", b"")
            deadline = time.monotonic() + PATIENCE
            while not re.search(rb"\b40 120\b", seen):  # until the new size has come there
                assert time.monotonic() < deadline, seen
                os.write(master, b"stty size\n")
                seen = _expect(master, rb"\d+ \d+\r\n", b"")
            os.write(master, b"exit 42\n")
            _expect(master, rb"exit 42", b"")
            assert process.wait(PATIENCE) == 42

    def test_control_c_goes_to_the_command(self, house: House, job: str) -> None:
        with _terminal(house, "exec", "-it", job, "--", "sh", "-c", "echo ready; sleep 1000") as (master, process):
            _expect(master, rb"ready", b"")
            os.write(master, b"\x03")
            assert process.wait(PATIENCE) == 130


@contextlib.contextmanager
def _terminal(house: House, *words: str):  # type: ignore[no-untyped-def]
    master, slave = pty.openpty()
    _resize(master, 25, 80)
    process = house.muster(*words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    try:
        yield master, process
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _resize(terminal: int, rows: int, columns: int) -> None:
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _expect(master: int, pattern: bytes, seen: bytes) -> bytes:
    deadline = time.monotonic() + PATIENCE
    while not re.search(pattern, seen, re.S):
        assert time.monotonic() < deadline, seen
        if select.select([master], [], [], 0.1)[0]:
            with contextlib.suppress(OSError):
                seen += os.read(master, 65536)
    return seen


class TestPortForward:
    def test_bytes_go_both_ways_and_ends_do_too(self, house: House, job: str) -> None:
        remote = int(until(lambda: _printed(house, 1)))
        with _forwarding(house, job, f"0:{remote}", "--rank", "1") as local:
            for text in (b"hello", b"0123456789" * 100_000):
                with socket.create_connection(("127.0.0.1", local), PATIENCE) as connection:
                    connection.sendall(text)
                    connection.shutdown(socket.SHUT_WR)
                    found = b""
                    while piece := connection.recv(65536):
                        found += piece
                assert found == text[::-1]

    def test_a_port_of_somebody_else_is_not_reached(self, house: House, job: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as mine:
            port = mine.getsockname()[1]
            with (
                _forwarding(house, job, f"0:{port}") as local,
                socket.create_connection(("127.0.0.1", local), PATIENCE) as connection,
            ):
                assert connection.recv(10) == b""


@contextlib.contextmanager
def _forwarding(house: House, *words: str):  # type: ignore[no-untyped-def]
    process = house.muster("port-forward", *words, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(b"Forwarding"), process.communicate()
        yield int(line.split()[1].rpartition(b":")[2])
    finally:
        process.kill()
        process.communicate()


def _printed(house: House, rank: int) -> str:
    return b"".join(house.client.logs("train", rank=rank)).decode().strip()


class TestAttach:
    def test_what_a_rank_prints_and_how_it_ends(self, house: House, job: str) -> None:
        process = house.muster("attach", job, "--rank", "0")
        until(lambda: _session_is_open(house, process), "attached")
        done = house.muster("exec", job, "--", "touch", "go")
        done.communicate(timeout=PATIENCE)
        out, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out, err) == (7, b"told\nend\n", b"")


def _session_is_open(house: House, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, process.communicate()
    log = (house.folder / "agent.log").read_text()
    return "attach with worker" in log


def test_frames_that_are_none() -> None:
    for frame in ("text", b""):
        with pytest.raises(ValueError):
            split(frame)
