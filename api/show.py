"""Records joined with what their views need, from one snapshot and in few queries."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from api import node_wire, wire
from api.forecasts import accuracy
from api.views import AllocationView, AttemptView, EtaView, JobView, NodeView, QueueView
from controller.arrays import is_array
from controller.records import (
    AttemptRecord,
    CheckpointRecord,
    EventRecord,
    IncidentRecord,
    JobRecord,
    MaintenanceWindowRecord,
    MeasurementRecord,
    NodeRecord,
    PriorityClassRecord,
    ProgramRecord,
    QueueRecord,
    Record,
    RepairRecord,
    ReservationRecord,
    WorkerRecord,
)
from controller.state import Prediction, Reading

POLICY_RECORDS = (PriorityClassRecord, ReservationRecord, MaintenanceWindowRecord)


def jobs(r: Reading, records: Iterable[JobRecord], etas: Mapping[str, EtaView] | None = None) -> list[JobView]:
    """With their live attempts, and of those that wait the `etas` by uid."""
    found = list(records)
    uids = [one.attempt_uid for one in found if one.attempt_uid]
    attempts, workers = r.attempts_of(uids), r.workers_of(uids)
    shown = []
    for one in found:
        attempt = attempts.get(one.attempt_uid or "")
        points = r.progress(attempt.uid, 1) if attempt and attempt.last_step is not None else []
        mine, eta = workers.get(one.attempt_uid or "", ()), (etas or {}).get(one.uid)
        elements = r.phases_of_elements(one.uid) if is_array(one) else None
        shown.append(wire.job(one, attempt, mine, points[-1] if points else None, eta, elements))
    return shown


def attempts(r: Reading, records: Sequence[AttemptRecord]) -> list[AttemptView]:
    """With all their workers."""
    workers = r.workers_of([one.uid for one in records])
    return [wire.attempt(one, workers.get(one.uid, ())) for one in records]


def nodes(r: Reading, records: Sequence[NodeRecord]) -> list[NodeView]:
    """With their leases, and who holds their devices."""
    leases = {lease.node: lease for lease in r.leases()}
    allocated = _allocations(r, records[0].name if len(records) == 1 else None)
    return [wire.node(one, leases.get(one.name), allocated.get(one.name, [])) for one in records]


def queues(r: Reading, records: Iterable[QueueRecord], scored: Sequence[Prediction] = ()) -> list[QueueView]:
    """With the number of their live jobs, and how good the predictions of their starts were."""
    return [wire.queue(one, r.jobs(queue=one.name, live_only=True), accuracy(scored, one.name)) for one in records]


def objects(r: Reading, records: Iterable[Record]) -> dict[str, Any]:
    """The view of each record by uid, whatever its kind."""
    of: dict[type, list[Any]] = {}
    for record in records:
        of.setdefault(type(record), []).append(record)
    shown: dict[str, Any] = {}
    for kind, found in of.items():
        shown |= zip((one.uid for one in found), _views(r, kind, found), strict=True)
    return shown


def _views(r: Reading, kind: Any, found: list[Any]) -> Sequence[Any]:
    if kind is JobRecord:
        return jobs(r, found)
    if kind is AttemptRecord:
        return attempts(r, found)
    if kind is NodeRecord:
        return nodes(r, found)
    if kind is QueueRecord:
        return queues(r, found)
    if kind in POLICY_RECORDS:
        return [wire.policy(one) for one in found]
    plain: dict[Any, Any] = {
        WorkerRecord: wire.worker,
        CheckpointRecord: wire.checkpoint,
        ProgramRecord: wire.program,
        IncidentRecord: wire.incident,
        EventRecord: wire.event,
        RepairRecord: node_wire.repair,
        MeasurementRecord: node_wire.measurement,
    }
    return [plain[kind](one) for one in found]


def _allocations(r: Reading, node: str | None) -> dict[str, list[AllocationView]]:
    held = r.devices_in_use(node)
    live = r.live_workers() if node is None else r.workers_of_node(node)
    workers = {one.uid: one for one in live}
    for uid in set(held.values()) - workers.keys():
        if (ended := r.worker(uid)) is not None:
            workers[uid] = ended
    found = r.attempts_of({one.attempt_uid for one in workers.values()})
    return wire.allocations(held, workers, {one.job_uid: one.job_name for one in found.values()})
