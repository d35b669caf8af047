"""Records as people and programs see them: camelCase, RFC 3339, nothing that only the controller needs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from api import node_wire
from api.views import (
    AccuracyView,
    AllocationView,
    AttemptRef,
    AttemptView,
    AuditView,
    CheckpointView,
    CheckView,
    ClaimView,
    DeviceView,
    EtaView,
    EventView,
    ExitView,
    IncidentView,
    JobOrder,
    JobView,
    ListMetadata,
    ListView,
    MetadataView,
    NodeView,
    OutboxView,
    PlacedView,
    PolicyStatus,
    PolicyView,
    ProgramView,
    ProgressView,
    QueueView,
    SelfView,
    VerdictView,
    WhyStatus,
    WhyView,
    WorkerView,
)
from controller.records import (
    AttemptRecord,
    CheckpointRecord,
    EventRecord,
    IncidentRecord,
    JobRecord,
    LeaseRecord,
    NodeRecord,
    PolicyRecord,
    PriorityClassRecord,
    ProgramRecord,
    QueueRecord,
    ResumePoint,
    Verdict,
    WorkerRecord,
)
from controller.scheduling.requests import request_of
from controller.state import AuditEntry, OutboxItem
from muster.arrays import size_of
from muster.clock import iso
from muster.protocol import Device, ProgressPoint, RankExit
from muster.quantity import format_cpu, format_memory
from muster.reasons import WAITS, Waiting
from muster.resources.meta import API_VERSION
from muster.states import JobPhase

WAITS_TO_START = (JobPhase.QUEUED, JobPhase.RECOVERING)


def page(kind: str, revision: int, items: Sequence[object], next_page: str | None = None) -> ListView[object]:
    metadata: ListMetadata = {"resourceVersion": str(revision)}
    if next_page:
        metadata["continue"] = next_page
    return {"apiVersion": API_VERSION, "kind": f"{kind}List", "metadata": metadata, "items": list(items)}


def job(
    record: JobRecord,
    attempt: AttemptRecord | None = None,
    workers: Iterable[WorkerRecord] = (),
    progress: ProgressPoint | None = None,
    eta: EtaView | None = None,
    elements: Mapping[JobPhase, int] | None = None,
) -> JobView:
    """`attempt` is the live one, `workers` are its, `progress` is the newest point that it reported, `eta` of a job
    that waits, `elements` of an array by phase."""
    metadata: MetadataView = {
        "name": record.name,
        "namespace": record.namespace,
        "labels": record.labels,
        "annotations": record.annotations,
        "uid": record.uid,
        "resourceVersion": str(record.revision),
        "generation": record.generation,
        "createdAt": iso(record.created_at),
    }
    if record.number:  # one that was just made is not read again to tell it
        metadata["number"] = record.number
    return {
        "apiVersion": API_VERSION,
        "kind": "Job",
        "metadata": metadata,
        "spec": record.spec | {"suspend": record.suspend},
        "status": {
            "phase": record.phase,
            "reason": record.reason,
            "message": record.message,
            "eta": eta if record.phase in WAITS_TO_START else None,
            "restarts": record.restarts,
            "epoch": record.epoch,
            "attempt": attempt_ref(attempt) if attempt else None,
            "progress": _progress(record, attempt, progress),
            "workers": [placed(worker) for worker in workers],
            "queuedAt": iso(record.queued_at),
            "startedAt": iso(record.started_at),
            "finishedAt": iso(record.finished_at),
            "warnings": list(record.warnings) if record.phase is JobPhase.QUEUED else [],
            **_order(record, elements),
        },
    }


def _order(record: JobRecord, elements: Mapping[JobPhase, int] | None) -> JobOrder:
    """What it comes after, and how far its elements are."""
    order: JobOrder = {}
    if entries := record.spec.get("after"):
        phases = {one.job: one.phase for one in record.unmet or ()}
        order["dependencies"] = [
            {
                "job": entry["job"],
                "condition": entry.get("condition", "succeeded"),
                "met": entry["job"] in record.met,
                "phase": phases.get(entry["job"], ""),
            }
            for entry in entries
        ]
    if array := record.spec.get("array"):
        found = {str(phase): count for phase, count in sorted((elements or {}).items())}
        order["elements"] = {"total": size_of(array), "made": record.made, "phases": found}
    return order


def why(record: JobRecord, eta: EtaView | None) -> WhyView:
    """Of a job in any phase."""
    shown = job(record)
    return {"apiVersion": API_VERSION, "kind": "Why", "metadata": shown["metadata"], "status": _why(record, eta)}


def _why(record: JobRecord, eta: EtaView | None) -> WhyStatus:
    status: WhyStatus = {
        "phase": record.phase,
        "code": None,
        "means": "",
        "message": record.message or f"the job does not wait: it is {record.phase}",
        "others": [],
        "helps": [],
        "numbers": {},
        "since": None,
        "queuedAt": iso(record.queued_at),
        "eta": eta if record.phase in WAITS_TO_START else None,
    }
    if record.phase is JobPhase.SUSPENDED:
        held, resume = WAITS[Waiting.SUSPENDED], f"muster resume {record.name}"
        message = ": ".join(part for part in (record.reason, record.message) if part)
        return status | {"code": Waiting.SUSPENDED, "means": held.means, "message": message, "helps": [resume]}
    if record.phase not in WAITS_TO_START:
        return status
    wait = record.wait
    if wait is None or wait.code != record.reason:
        return status | {"message": record.message or "it has not been planned yet"}
    return status | {
        "code": wait.code,
        "means": WAITS[wait.code].means,
        "message": wait.message,
        "others": [{"code": code, "means": WAITS[code].means} for code in wait.others],
        "helps": [*wait.helps, WAITS[wait.code].helps],
        "numbers": wait.numbers,
        "since": iso(wait.since),
    }


def _progress(record: JobRecord, attempt: AttemptRecord | None, point: ProgressPoint | None) -> ProgressView | None:
    """The live attempt's, else the best step that the job ever reached."""
    if attempt is not None and attempt.last_step is not None:
        return {"step": attempt.last_step, "loss": attempt.loss, "at": iso(point.at) if point else None}
    if record.best_step is not None:
        return {"step": record.best_step, "loss": None, "at": None}
    return None


def attempt_ref(record: AttemptRecord) -> AttemptRef:
    return {"uid": record.uid, "number": record.number, "phase": record.phase}


def placed(record: WorkerRecord) -> PlacedView:
    return {
        "role": record.role,
        "index": record.index,
        "node": record.node,
        "devices": list(record.devices),
        "phase": record.phase,
    }


def attempt(record: AttemptRecord, workers: Iterable[WorkerRecord]) -> AttemptView:
    return {
        "uid": record.uid,
        "number": record.number,
        "epoch": record.epoch,
        "scope": record.scope,
        "phase": record.phase,
        "reason": record.reason,
        "message": record.message,
        "rendezvous": record.rendezvous,
        "resume": {"path": record.resume.path, "step": record.resume.step} if record.resume else None,
        "verdict": verdict(record.verdict) if record.verdict else None,
        "firstStep": record.first_step,
        "lastStep": record.last_step,
        "loss": record.loss,
        "redoneSteps": record.redone_steps,
        "fingerprint": record.fingerprint,
        "timeline": {
            "placedAt": iso(record.placed_at),
            "launchingAt": iso(record.launching_at),
            "runningAt": iso(record.running_at),
            "failedAt": iso(record.failed_at),
            "detectedAt": iso(record.detected_at),
            "stoppingAt": iso(record.stopping_at),
            "endedAt": iso(record.ended_at),
            "decidedAt": iso(record.decided_at),
        },
        "workers": [worker(one) for one in workers],
    }


def worker(record: WorkerRecord) -> WorkerView:
    return {
        "uid": record.uid,
        "role": record.role,
        "index": record.index,
        "node": record.node,
        "phase": record.phase,
        "desired": record.desired,
        "devices": list(record.devices),
        "ports": list(record.ports),
        "firstRank": record.template.first_rank,
        "ranks": record.template.ranks,
        "exits": [_exit(one) for one in record.exits],
        "problem": record.problem,
        "message": record.message,
        "readyAt": iso(record.ready_at),
        "runningAt": iso(record.running_at),
        "endedAt": iso(record.ended_at),
    }


def _exit(one: RankExit) -> ExitView:
    return {
        "process": one.process,
        "rank": one.rank,
        "code": one.code,
        "signal": one.signal,
        "oom": one.oom,
        "at": iso(one.at) if one.at else None,
    }


def verdict(value: Verdict) -> VerdictView:
    return {
        "category": value.category,
        "action": value.action,
        "why": value.why,
        "culpritNodes": list(value.culprit_nodes),
        "culpritRank": value.culprit_rank,
        "nodeAtFault": value.node_at_fault,
        "certainty": value.certainty,
        "decidedBy": list(value.decided_by),
        "fingerprint": value.fingerprint,
    }


def checkpoint(record: CheckpointRecord) -> CheckpointView:
    return {
        "uid": record.uid,
        "path": record.path,
        "step": record.step,
        "format": record.format,
        "complete": record.complete,
        "why": record.why,
        "size": record.size,
        "files": len(record.manifest),
        "epoch": record.epoch,
        "attempt": record.attempt_uid,
        "createdAt": iso(record.created_at),
    }


def program(record: ProgramRecord) -> ProgramView:
    return {"uid": record.uid, "namespace": record.namespace, "name": record.name, "runs": record.runs}


def incident(record: IncidentRecord) -> IncidentView:
    return {
        "uid": record.uid,
        "namespace": record.namespace,
        "job": record.job_name,
        "attempt": record.attempt_uid,
        "verdict": verdict(record.verdict),
        "openedAt": iso(record.opened_at),
        "closedAt": iso(record.closed_at),
        "cost": record.cost,
    }


def event(record: EventRecord) -> EventView:
    return {
        "uid": record.uid,
        "namespace": record.namespace,
        "revision": record.revision,
        "object": {"kind": record.kind, "uid": record.object_uid, "name": record.name},
        "level": record.level,
        "reason": record.reason,
        "message": record.message,
        "at": iso(record.at),
    }


def node(record: NodeRecord, lease: LeaseRecord | None, allocated: list[AllocationView]) -> NodeView:
    return {
        "apiVersion": API_VERSION,
        "kind": "Node",
        "metadata": {
            "name": record.name,
            "labels": record.labels,
            "uid": record.uid,
            "resourceVersion": str(record.revision),
            "createdAt": iso(record.created_at),
        },
        "spec": {
            "cordoned": record.cordoned,
            "taints": [{"key": one.key, "value": one.value} for one in record.taints],
            "cordonedBy": record.cordoned_by,
            "cordonReason": record.cordon_reason,
            "drain": node_wire.drain(record.drain) if record.drain else None,
        },
        "status": {
            "phase": record.phase,
            "held": record.held,
            "phaseSince": iso(record.phase_since),
            "message": record.message,
            "address": record.address,
            "host": record.host,
            "bootId": record.boot_id,
            "agentVersion": record.agent_version,
            "cpu": format_cpu(record.cpu_milli),
            "memory": format_memory(record.memory),
            "devices": [device(one) for one in record.devices],
            "allocated": allocated,
            "nics": [node_wire.nic(one) for one in record.nics],
            "conditions": [node_wire.condition(one) for one in record.conditions],
            "problems": list(record.problems),
            "lastRenewal": iso(lease.renewed_at) if lease else None,
        },
    }


def device(one: Device) -> DeviceView:
    return {
        "index": one.index,
        "type": one.type,
        "vendor": one.vendor,
        "model": one.model,
        "memoryMib": one.memory_mib,
        "numa": one.numa,
        "group": one.group,
        "healthy": one.healthy,
        "virtual": one.virtual,
        "problems": list(one.problems),
        "bus": one.bus,
        "uuid": one.uuid,
        "nics": list(one.nics),
        "parts": list(one.parts),
    }


def allocations(
    held: Mapping[tuple[str, int], str], workers: Mapping[str, WorkerRecord], names: Mapping[str, str]
) -> dict[str, list[AllocationView]]:
    """By node. `held` maps (node, device) to a worker's uid, `names` a job's uid to its name."""
    found: dict[str, list[AllocationView]] = {}
    for (name, index), uid in sorted(held.items()):
        one = workers.get(uid)
        found.setdefault(name, []).append(
            {
                "device": index,
                "namespace": one.namespace if one else "",
                "job": names.get(one.job_uid, "") if one else "",
                "worker": uid,
            }
        )
    return found


def queue(record: QueueRecord, jobs: Iterable[JobRecord], accuracy: AccuracyView) -> QueueView:
    return {
        "apiVersion": API_VERSION,
        "kind": "Queue",
        "metadata": {
            "name": record.name,
            "labels": record.labels,
            "uid": record.uid,
            "resourceVersion": str(record.revision),
            "generation": record.generation,
            "createdAt": iso(record.created_at),
        },
        "spec": record.spec,
        "status": {
            "jobs": dict(sorted(Counter(str(one.phase) for one in jobs).items())),
            "etaAccuracy": accuracy,
        },
    }


def claim(record: JobRecord, leaving: Sequence[tuple[WorkerRecord, str]]) -> ClaimView:
    """The claim that a job holds. `leaving`: workers that it still waits for, with their jobs."""
    held = record.claim
    assert held is not None
    occupied = {worker.node for worker, _ in leaving}
    nodes = list(dict.fromkeys(held.nodes))
    return {
        "apiVersion": API_VERSION,
        "kind": "Claim",
        "metadata": {
            "name": record.name,
            "namespace": record.namespace,
            "uid": record.uid,
            "resourceVersion": str(record.revision),
            "createdAt": iso(held.made_at),
        },
        "status": {
            "owner": f"{record.namespace}/{record.name}",
            "queue": record.spec.get("queue", "default"),
            "priority": request_of(record).priority,
            "nodes": nodes,
            "vacated": [node for node in nodes if node not in occupied],
            "leaving": [
                {"job": owner, "worker": f"{worker.role}-{worker.index}", "node": worker.node}
                for worker, owner in leaving
            ],
            "madeAt": iso(held.made_at),
            "deadline": iso(held.deadline),
        },
    }


def policy(record: PolicyRecord, now: float | None = None) -> PolicyView:
    """`now`: to warn of a span that is over."""
    status: PolicyStatus = {}
    if not isinstance(record, PriorityClassRecord):
        over = ["it is over already"] if now is not None and record.ends_at <= now else []
        status = {"startsAt": iso(record.starts_at), "endsAt": iso(record.ends_at), "warnings": over}
    return {
        "apiVersion": API_VERSION,
        "kind": type(record).__name__.removesuffix("Record"),
        "metadata": {
            "name": record.name,
            "labels": record.labels,
            "uid": record.uid,
            "resourceVersion": str(record.revision),
            "generation": record.generation,
            "createdAt": iso(record.created_at),
        },
        "spec": record.spec,
        "status": status,
    }


def myself(record: AttemptRecord) -> SelfView:
    resume: ResumePoint | None = record.resume
    return {
        "namespace": record.namespace,
        "job": record.job_name,
        "jobUid": record.job_uid,
        "attempt": attempt_ref(record),
        "epoch": record.epoch,
        "resume": {"path": resume.path, "step": resume.step} if resume else None,
    }


def check(revision: int, findings: Mapping[str, list[str]]) -> CheckView:
    return {
        "ok": not any(findings.values()),
        "revision": str(revision),
        "invariants": [{"name": name, "broken": broken} for name, broken in findings.items()],
    }


def audit_entry(entry: AuditEntry) -> AuditView:
    return {
        "at": iso(entry.at),
        "actor": entry.actor,
        "role": entry.role,
        "requestId": entry.request_id,
        "verb": entry.verb,
        "namespace": entry.namespace,
        "kind": entry.kind,
        "name": entry.name,
        "outcome": entry.outcome,
        "change": entry.change,
    }


def outbox_item(item: OutboxItem) -> OutboxView:
    return {
        "id": item.id,
        "kind": item.kind,
        "key": item.key,
        "state": item.state,
        "tries": item.tries,
        "error": item.error,
        "createdAt": iso(item.created_at),
        "nextAt": iso(item.next_at) if item.state == "due" else None,
        "doneAt": iso(item.done_at),
    }
