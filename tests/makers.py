"""Fluent makers for records, so that a scenario says only what matters to it."""

from typing import Any

from controller.records import AttemptRecord, JobRecord, NodeRecord, WorkerRecord
from muster.launch import LaunchTemplate
from muster.protocol import Device, RankExit
from muster.states import AttemptPhase, JobPhase, WorkerPhase

NOW = 1_700_000_000.0


def make_job(name: str = "train", **changes: Any) -> JobRecord:
    """A queued job of one worker; `spec` fields are merged over a valid spec in wire form."""
    spec = {
        "command": ["true"],
        "workers": 1,
        "cpu": "1",
        "memory": "256Mi",
        "queue": "default",
        **changes.pop("spec", {}),
    }
    fields: dict[str, Any] = {
        "uid": f"job-{name}",
        "namespace": "default",
        "name": name,
        "phase": JobPhase.QUEUED,
        "created_at": NOW,
        "queued_at": NOW,
    }
    return JobRecord(spec=spec, **{**fields, **changes})


def make_attempt(job: JobRecord, number: int = 1, **changes: Any) -> AttemptRecord:
    fields: dict[str, Any] = {
        "uid": f"{job.uid}-a{number}",
        "job_uid": job.uid,
        "namespace": job.namespace,
        "job_name": job.name,
        "scope": "gang",
        "number": number,
        "epoch": number,
        "rendezvous": f"{job.name}-{number}",
        "phase": AttemptPhase.PLACED,
        "placed_at": NOW,
    }
    return AttemptRecord(**{**fields, **changes})


def make_worker(attempt: AttemptRecord, index: int = 0, node: str | None = None, **changes: Any) -> WorkerRecord:
    fields: dict[str, Any] = {
        "uid": f"{attempt.uid}-w{index}",
        "attempt_uid": attempt.uid,
        "job_uid": attempt.job_uid,
        "namespace": attempt.namespace,
        "role": "worker",
        "index": index,
        "node": node or f"n{index}",
        "host": "machine",
        "epoch": attempt.epoch,
        "template": LaunchTemplate(framework="command", processes=(("true",),)),
        "phase": WorkerPhase.ASSIGNED,
    }
    return WorkerRecord(**{**fields, **changes})


def make_node(name: str = "n0", devices: int = 8, kind: str = "h100", **changes: Any) -> NodeRecord:
    fields: dict[str, Any] = {
        "uid": f"node-{name}",
        "host": "machine",
        "address": "127.0.0.1",
        "cpu_milli": 64_000,
        "memory": 512 * 2**30,
        "devices": tuple(Device(index=index, type=kind, virtual=True) for index in range(devices)),
    }
    return NodeRecord(name=name, **{**fields, **changes})


def exited(
    code: int | None = 0, signal: int | None = None, at: float = NOW, rank: int | None = 0
) -> tuple[RankExit, ...]:
    return (RankExit(process=0, rank=rank, code=code, signal=signal, at=at),)
