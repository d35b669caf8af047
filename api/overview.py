"""What the dashboard's first pages show, made of few queries."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from api import wire
from api.views import EtaView
from controller.records import AttemptRecord, JobRecord, NodeRecord
from controller.recovery.goodput import Bucket, ettr
from controller.state import Reader
from muster.clock import iso
from muster.protocol import ProgressPoint
from muster.states import JobPhase, NodePhase

DAY: Final = 86400.0
NEXT: Final = 8
INCIDENTS: Final = 20
LEVEL: Final = "muster.dev/"
OUTERMOST_FIRST: Final = ("zone", "block", "spine", "leaf", "rack")


def summary(r: Reader, etas: Mapping[str, EtaView], now: float) -> dict[str, Any]:
    tallies = r.job_tallies()
    phases: Counter[str] = Counter()
    queues: Counter[tuple[str, str]] = Counter()
    for one in tallies:
        phases[one.phase] += one.count
        queues[one.queue, one.phase] += one.count
    nodes = r.nodes()
    sums = r.receipt_sums(now - DAY)
    incidents = r.incidents(since=now - DAY)[-INCIDENTS:]
    return {
        "resourceVersion": str(r.revision()),
        "at": iso(now),
        "jobs": [{"phase": phase, "count": count} for phase, count in sorted(phases.items())],
        "queues": [{"queue": key[0], "phase": key[1], "count": count} for key, count in sorted(queues.items())],
        "waiting": [
            {"queue": one.queue, "reason": one.reason or "NEW", "count": one.count, "oldestSeconds": max(0.0, now - one.oldest)}
            for one in sorted(tallies, key=lambda one: -one.count)
            if one.phase == JobPhase.QUEUED
        ],
        "nodes": [{"phase": phase, "count": count} for phase, count in sorted(Counter(_state(one) for one in nodes).items())],
        "devices": _kinds(nodes, r.allocated_devices()),
        "goodput": ettr({bucket: sums[bucket.value] for bucket in Bucket}),
        "deviceSeconds": sums,
        "incidents": [wire.incident(one) for one in reversed(incidents)],
        "next": _next(r, etas),
    }  # fmt: skip


def _state(node: NodeRecord) -> str:
    return "Cordoned" if node.cordoned and node.phase is NodePhase.READY else str(node.phase)


def _kinds(nodes: list[NodeRecord], allocated: Mapping[str, int]) -> list[dict[str, Any]]:
    found: dict[str, Counter[str]] = {}
    for node in nodes:
        for device in node.devices:
            counts = found.setdefault(device.type, Counter())
            counts["all"] += 1
            counts["healthy"] += device.healthy and node.phase is NodePhase.READY
        if node.devices:
            found[node.devices[0].type]["allocated"] += allocated.get(node.name, 0)
    return [
        {"type": kind, "all": counts["all"], "allocated": counts["allocated"], "healthy": counts["healthy"]}
        for kind, counts in sorted(found.items())
    ]


def _next(r: Reader, etas: Mapping[str, EtaView]) -> list[dict[str, Any]]:
    """The jobs that the forecast lets start first."""
    dated = [(str(eta.get("at") or "9"), uid, eta) for uid, eta in etas.items()]
    shown = []
    for _, uid, eta in sorted(dated, key=lambda one: one[0])[:NEXT]:
        job = r.job(uid)
        if job is not None and job.phase is JobPhase.QUEUED:
            shown.append(_start(job, eta))
    return shown


def _start(job: JobRecord, eta: EtaView) -> dict[str, Any]:
    return {
        "namespace": job.namespace,
        "job": job.name,
        "at": eta.get("at"),
        "basis": eta.get("basis"),
        "queue": str(job.spec.get("queue") or ""),
        "workers": int(job.spec.get("workers") or 1),
    }


def fabric(r: Reader) -> dict[str, Any]:
    nodes = r.nodes()
    levels = _levels(nodes)
    holders: dict[str, dict[int, int]] = {}
    jobs: dict[str, int] = {}
    listed: list[dict[str, Any]] = []
    attempts = {one.uid: one for one in r.live_attempts()}
    records = r.jobs_with({one.job_uid for one in attempts.values()})
    for worker in r.live_workers():
        attempt = attempts.get(worker.attempt_uid)
        if attempt is None or not worker.devices:
            continue
        if attempt.job_uid not in jobs:
            job = records.get(attempt.job_uid)
            jobs[attempt.job_uid] = len(listed)
            listed.append(
                {
                    "namespace": attempt.namespace,
                    "name": attempt.job_name,
                    "queue": str(job.spec.get("queue") or "") if job else "",
                    "phase": str(job.phase) if job else "",
                }
            )
        mine = holders.setdefault(worker.node, {})
        for device in worker.devices:
            mine[device] = jobs[attempt.job_uid]
    return {
        "resourceVersion": str(r.revision()),
        "levels": list(levels),
        "nodes": [_node(one, levels, holders.get(one.name, {})) for one in nodes],
        "jobs": listed,
    }


def _levels(nodes: list[NodeRecord]) -> tuple[str, ...]:
    found = {key.removeprefix(LEVEL) for node in nodes for key in node.labels if key.startswith(LEVEL)}
    return tuple(level for level in OUTERMOST_FIRST if level in found)


def _node(node: NodeRecord, levels: tuple[str, ...], held: Mapping[int, int]) -> dict[str, Any]:
    return {
        "name": node.name,
        "path": [node.labels.get(LEVEL + level, "") for level in levels],
        "phase": str(node.phase),
        "cordoned": node.cordoned,
        "type": node.devices[0].type if node.devices else "",
        "devices": "".join("s" if not one.healthy else "u" if one.index in held else "f" for one in node.devices),
        "jobs": [held.get(one.index, -1) for one in node.devices],
        "conditions": len(node.conditions),
    }


def point(attempt: AttemptRecord, found: ProgressPoint) -> dict[str, Any]:
    return {
        "attempt": attempt.number,
        "step": found.step,
        "loss": found.loss,
        "at": iso(found.at),
        "rank": found.rank,
        "phase": found.phase,
    }
