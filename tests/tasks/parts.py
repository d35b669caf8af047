"""The real things around a task: a Redis-protocol server, a worker process, a receiver of web hooks."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DEADLINE = 40.0
"""For what takes a second on an idle machine."""


def wait_until(true: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not true():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Receiver:
    """Answers each call with the next of `answers`, the last one for ever. A callable answer may block."""

    def __init__(self, *answers: int | Callable[[], int]) -> None:
        self.calls: list[tuple[str | None, Any]] = []
        self._answers = list(answers)
        self._lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = owner._answer(self.headers["Idempotency-Key"], body)
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.send_header("Location", "/elsewhere")
                    self.end_headers()
                except OSError:
                    pass  # the caller was killed

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def _answer(self, key: str | None, body: Any) -> int:
        with self._lock:
            self.calls.append((key, body))
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return answer() if callable(answer) else answer

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Process:
    """A child that is ended at the end, whatever happened."""

    def __init__(self, argv: list[str], env: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("ab") as out:
            self.child = subprocess.Popen(
                argv, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=log.parent
            )

    def end(self, how: int = 9) -> int:
        if self.child.poll() is None:
            self.child.send_signal(how)
        return self.child.wait(DEADLINE)


def start_redis(binary: Path, port: int, folder: Path) -> Process:
    argv = [str(binary), "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    redis = Process([*argv, "--dir", str(folder)], os.environ, folder / "redis.log")
    wait_until(lambda: _listens(port), "Redis")
    return redis


def start_worker(environ: Mapping[str, str], folder: Path) -> Process:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1", **environ}
    return Process([sys.executable, "-m", "controller.tasks.main"], env, folder / "worker.log")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
