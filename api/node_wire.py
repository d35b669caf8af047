"""A node's health, its NICs and its repairs as people and programs see them."""

from api.node_views import ConditionView, DrainView, MeasurementView, NicView, NodeWorkerView, RepairView
from controller.records import Drain, MeasurementRecord, RepairRecord, WorkerRecord
from muster.clock import iso
from muster.conditions import Condition
from muster.protocol import Nic


def drain(one: Drain) -> DrainView:
    return {"by": one.by, "at": iso(one.at), "policy": one.policy, "reason": one.reason}


def condition(one: Condition) -> ConditionView:
    return {
        "kind": one.kind,
        "reason": one.reason,
        "message": one.message,
        "severity": one.severity,
        "remedy": one.remedy,
        "device": one.device,
        "subject": one.subject,
        "since": iso(one.since),
        "seen": iso(one.seen),
        "count": one.count,
    }


def nic(one: Nic) -> NicView:
    return {
        "name": one.name,
        "netdev": one.netdev,
        "linkLayer": one.link_layer,
        "state": one.state,
        "rateGbps": one.rate_gbps,
        "numa": one.numa,
        "rail": one.rail,
        "bus": one.bus,
        "virtualFunction": one.virtual_function,
    }


def repair(one: RepairRecord) -> RepairView:
    return {
        "uid": one.uid,
        "node": one.node,
        "phase": one.phase,
        "message": one.message,
        "dryRun": one.dry_run,
        "devices": list(one.devices),
        "tried": list(one.tried),
        "conditions": [condition(each) for each in one.conditions],
        "steps": [{"at": iso(step.at), "phase": step.phase, "message": step.message} for step in one.steps],
        "createdAt": iso(one.created_at),
        "endedAt": iso(one.ended_at),
    }


def measurement(one: MeasurementRecord) -> MeasurementView:
    return {
        "uid": one.uid,
        "node": one.node,
        "check": one.check,
        "name": one.name,
        "value": one.value,
        "unit": one.unit,
        "ok": one.ok,
        "device": one.device,
        "deviceType": one.device_type,
        "peer": one.peer,
        "message": one.message,
        "outlier": one.outlier,
        "at": iso(one.at),
    }


def worker(one: WorkerRecord, job: str) -> NodeWorkerView:
    return {
        "uid": one.uid,
        "namespace": one.namespace,
        "job": job,
        "role": one.role,
        "index": one.index,
        "phase": one.phase,
        "devices": list(one.devices),
        "stopReason": one.stop_reason,
    }
