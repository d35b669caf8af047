"""A fake API that drives real agents and real shims: it keeps what it is told and wants what a test says."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from agents.runtime import diary
from muster.evidence import Evidence
from muster.launch import LaunchTemplate
from muster.protocol import (
    Ack,
    Assignment,
    CheckpointItem,
    Desired,
    Hello,
    Lease,
    LogAck,
    LogChunk,
    ProgressPoint,
    Renew,
    Renewed,
    Report,
    Welcome,
    WorkerReport,
    decode_up,
    encode,
)

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
PATIENCE = float(os.environ.get("MUSTER_TEST_PATIENCE", "60"))
TOKEN = "agent-token"


def until(condition: Callable[[], T], what: str = "", patience: float = PATIENCE) -> T:
    """Wait for a true value of `condition` and return it."""
    deadline = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience:g} s: {what or condition}")
        time.sleep(0.005)
    return value


def alive(pid: int) -> bool:
    """Whether the process runs or is stopped; a zombie is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def make_assignment(uid: str = "w1", *command: str, **changes: Any) -> Assignment:
    """One worker of one rank; `command` words are /bin/sh -c text when there is one word only."""
    argv = ("/bin/sh", "-c", command[0]) if len(command) == 1 else command or ("/bin/true",)
    template = {"framework": "command", "processes": (argv,), **changes.pop("template", {})}
    fields: dict[str, Any] = {
        "worker_uid": uid,
        "attempt": "a1",
        "job": "train",
        "job_uid": "j1",
        "namespace": "default",
        "scope": "gang",
        "number": 1,
        "epoch": 1,
        "role": "worker",
        "index": 0,
        "desired": "prepare",
        "revision": 1,
        "fence": 600.0,
        "grace": 5.0,
        "template": LaunchTemplate(**template),
    }
    return Assignment(**{**fields, **changes})


class FakeApi:
    """Runs in a thread of its own. `acks`, `log_acks` and `renews` say what it answers; `port` stays the same over
    `stop` and `start`."""

    def __init__(self, lease: Lease) -> None:
        self.lease, self.port = lease, 0
        self.acks = self.log_acks = self.renews = True
        self.hellos: list[Hello] = []
        self.reports: list[Report] = []
        self.renewals: list[Renew] = []
        self.chunks: list[LogChunk] = []
        self.tokens: list[str | None] = []
        self.generation = 0
        self.assignments: dict[str, Assignment] = {}
        self._sockets: set[ServerConnection] = set()
        self.start()

    def start(self) -> None:
        self._loop, ready = asyncio.new_event_loop(), threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(ready,), daemon=True)
        self._thread.start()
        assert ready.wait(PATIENCE)

    def stop(self) -> None:
        """As if it were killed: every stream ends."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(PATIENCE)

    def want(self, *assignments: Assignment) -> None:
        """Exactly these, from now on."""
        self.assignments = {assignment.worker_uid: assignment for assignment in assignments}
        self.push()

    def change(self, uid: str, **changes: Any) -> None:
        self.want(*{**self.assignments, uid: replace(self.assignments[uid], **changes)}.values())

    def push(self) -> None:
        self.generation += 1
        frame = encode(self._desired()).decode()
        for socket in list(self._sockets):
            asyncio.run_coroutine_threadsafe(self._send(socket, frame), self._loop)

    def worker(self, uid: str = "w1") -> WorkerReport | None:
        """The newest that was said of it."""
        told = [
            report for frame in [*self.hellos, *self.reports] for report in frame.workers if report.worker_uid == uid
        ]
        reported = [report for frame in self.reports for report in frame.workers if report.worker_uid == uid]
        return reported[-1] if reported else told[-1] if told else None

    def phases(self, uid: str = "w1") -> list[str]:
        """Each phase that was reported, without repetitions."""
        phases = [r.phase for frame in self.reports for r in frame.workers if r.worker_uid == uid]
        return [phase for i, phase in enumerate(phases) if i == 0 or phases[i - 1] != phase]

    def reaches(self, phase: str, uid: str = "w1") -> WorkerReport:
        def there() -> WorkerReport | None:
            report = self.worker(uid)
            return report if report is not None and report.phase == phase else None

        try:
            return until(there)
        except AssertionError:
            raise AssertionError(f"{uid} did not become {phase}: {self.worker(uid)}") from None

    def evidence(self) -> list[Evidence]:
        return [evidence for report in self.reports for evidence in report.evidence]

    def progress(self, attempt: str = "a1") -> list[ProgressPoint]:
        return [point for report in self.reports for point in report.progress.get(attempt, ())]

    def stock(self, attempt: str = "a1") -> tuple[CheckpointItem, ...] | None:
        found = [report.checkpoints[attempt] for report in self.reports if attempt in report.checkpoints]
        return found[-1] if found else None

    def log(self, rank: int | None = 0, uid: str = "w1") -> str:
        """The log store's file: bytes by offset."""
        data = bytearray()
        for chunk in list(self.chunks):
            if chunk.worker_uid == uid and chunk.rank == rank:
                encoded = chunk.data.encode()
                assert chunk.offset <= len(data), "a hole in the log"
                data[chunk.offset : chunk.offset + len(encoded)] = encoded
        return data.decode()

    def _serve(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main(ready))

    async def _main(self, ready: threading.Event) -> None:
        self._ended = asyncio.Event()
        async with serve(self._stream, "127.0.0.1", self.port, close_timeout=0.1) as server:
            self.port = next(iter(server.sockets)).getsockname()[1]
            ready.set()
            await self._ended.wait()

    async def _stream(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        assert socket.request.path == "/agent/v1/stream"
        self.tokens.append(socket.request.headers.get("Authorization"))
        hello = decode_up(await socket.recv())
        assert isinstance(hello, Hello)
        self.hellos.append(hello)
        await self._send(socket, encode(Welcome(v=1, lease=self.lease, generation=self.generation)).decode())
        await self._send(socket, encode(self._desired()).decode())
        self._sockets.add(socket)
        try:
            async for frame in socket:
                answer = self._answer(decode_up(frame))
                if answer is not None:
                    await self._send(socket, encode(answer).decode())
        except ConnectionClosed:
            pass
        finally:
            self._sockets.discard(socket)

    def _answer(self, frame: Any) -> Any:
        match frame:
            case Renew():
                self.renewals.append(frame)
                return Renewed(seq=frame.seq, sent=frame.sent) if self.renews else None
            case Report():
                self.reports.append(frame)
                return Ack(seq=frame.seq) if self.acks else None
            case LogChunk():
                self.chunks.append(frame)
                offset = frame.offset + len(frame.data.encode())
                return LogAck(worker_uid=frame.worker_uid, rank=frame.rank, offset=offset) if self.log_acks else None

    async def _send(self, socket: ServerConnection, frame: str) -> None:
        with contextlib.suppress(ConnectionClosed):
            await socket.send(frame)

    def _desired(self) -> Desired:
        return Desired(generation=self.generation, assignments=tuple(self.assignments.values()))


class AgentProcess:
    """A real agent. `kill` and `start` as often as a test likes."""

    def __init__(self, api: FakeApi, directory: Path, **environ: str) -> None:
        self.directory, self._environ = directory, environ
        self.log = directory.with_suffix(".log")
        token = directory.with_suffix(".token")
        token.write_text(TOKEN + "\n")
        self._base = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "PYTHONPATH": str(ROOT),
            "MUSTER_SERVER": f"http://127.0.0.1:{api.port}",
            "MUSTER_TOKEN_FILE": str(token),
            "MUSTER_NODE": "n1",
            "MUSTER_AGENT_DIR": str(directory),
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self, **environ: str) -> None:
        self._environ = {**self._environ, **environ}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "agents.main"],
                env={**self._base, **self._environ},
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, number: int = signal.SIGKILL) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def folder(self, uid: str = "w1") -> Path:
        return self.directory / "attempts" / uid

    def events(self, uid: str = "w1") -> list[dict[str, Any]]:
        return diary.read(self.folder(uid) / "diary.jsonl")

    def event(self, name: str, uid: str = "w1") -> dict[str, Any]:
        """Wait for the diary to hold it."""
        return until(
            lambda: next((e for e in self.events(uid) if e["event"] == name), None), f"{name} in the diary of {uid}"
        )

    def pids(self, uid: str = "w1") -> list[int]:
        return [event["pid"] for event in self.events(uid) if event["event"] == "started"]

    def end(self) -> None:
        """Nothing of this agent is left: what a test has started ends with it."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        for folder in self.directory.glob("attempts/*"):
            for event in diary.read(folder / "diary.jsonl"):
                if event["event"] in ("shim", "started") and alive(event["pid"]):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(event["pid"], signal.SIGKILL)
