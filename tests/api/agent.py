"""A fake agent at the end of a stream."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from starlette.testclient import TestClient, WebSocketTestSession

from controller.records import WorkerRecord
from muster.protocol import (
    Ack,
    Desired,
    Device,
    Hello,
    Inventory,
    LogAck,
    LogChunk,
    Renew,
    Renewed,
    Report,
    Welcome,
    WorkerReport,
    decode_down,
    encode,
)
from muster.version import PROTOCOL

F = TypeVar("F")

STREAM = "/agent/v1/stream"


def inventory(**changes: Any) -> Inventory:
    fields: dict[str, Any] = {
        "address": "127.0.0.1",
        "host": "machine",
        "cpu_milli": 64_000,
        "memory": 2**39,
        "devices": tuple(Device(index=index, type="h100", virtual=True) for index in range(8)),
        "labels": {"muster.dev/block": "b0", "muster.dev/leaf": "l0"},
    }
    return Inventory(**{**fields, **changes})


def hello(node: str = "n0", **changes: Any) -> Hello:
    fields: dict[str, Any] = {"v": PROTOCOL, "boot_id": "boot-1", "agent_version": "0.1.0", "inventory": inventory()}
    return Hello(node=node, **{**fields, **changes})


def report_of(worker: WorkerRecord, phase: str, **changes: Any) -> WorkerReport:
    fields: dict[str, Any] = {
        "worker_uid": worker.uid,
        "attempt": worker.attempt_uid,
        "epoch": worker.epoch,
        "phase": phase,
        "at": 1_700_000_001.0,
    }
    return WorkerReport(**{**fields, **changes})


class FakeAgent:
    """Frames in and out. `desired` is the newest that it was told."""

    def __init__(self, session: WebSocketTestSession) -> None:
        self.session = session
        self.desired: Desired | None = None
        self._seq = 0

    def send(self, frame: Any) -> None:
        self.session.send_text(encode(frame).decode())

    def receive(self, kind: type[F]) -> F:
        """The next frame of this kind; others are passed over."""
        while True:
            frame = decode_down(self.session.receive_text())
            if isinstance(frame, Desired):
                self.desired = frame
            if isinstance(frame, kind):
                return frame

    def report(self, **parts: Any) -> None:
        """Until it is acknowledged."""
        self._seq += 1
        self.send(Report(seq=self._seq, **parts))
        assert self.receive(Ack).seq == self._seq

    def renew(self) -> Renewed:
        self._seq += 1
        self.send(Renew(seq=self._seq, sent=12.5))
        return self.receive(Renewed)

    def log(self, worker: WorkerRecord, offset: int, data: str, rank: int | None = None) -> LogAck:
        self.send(LogChunk(worker_uid=worker.uid, attempt=worker.attempt_uid, rank=rank, offset=offset, data=data))
        return self.receive(LogAck)

    def wanted(self) -> dict[str, str]:
        """Worker uid to what is desired of it."""
        assert self.desired is not None
        return {one.worker_uid: one.desired for one in self.desired.assignments}


@contextmanager
def connected(client: TestClient, headers: dict[str, str], greeting: Hello | None = None) -> Iterator[FakeAgent]:
    """An agent that was welcomed and told what it should have."""
    with client.websocket_connect(STREAM, headers=headers) as session:
        agent = FakeAgent(session)
        agent.send(greeting or hello())
        agent.receive(Welcome)
        agent.receive(Desired)
        yield agent
