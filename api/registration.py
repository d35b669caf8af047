"""A node arrives: registered or updated, its lease renewed, and what a reboot has killed said dead."""

from typing import Any, Final

from msgspec.structs import replace

from api.health import has_conditions
from api.holding import Standing, judge
from api.observing import observe
from controller.acts.log import node_event
from controller.records import LeaseRecord, NodeRecord
from controller.state import Writer
from muster.protocol import Hello, Inventory, Refused
from muster.resources.meta import Metadata
from muster.states import NodePhase, WorkerPhase
from muster.version import PROTOCOL, PROTOCOL_OLDEST

VANISHED: Final = "VANISHED"


def refusal(hello: Hello) -> Refused | None:
    """What no database is needed for."""
    if not PROTOCOL_OLDEST <= hello.v <= PROTOCOL + 1:
        spoken = f"{PROTOCOL_OLDEST} to {PROTOCOL + 1}"
        return Refused(code="VERSION", message=f"this API speaks protocol {spoken}, node {hello.node} speaks {hello.v}")
    try:
        Metadata(name=hello.node)
    except ValueError:
        return Refused(code="NAME", message=f"{hello.node[:100]!r} cannot be the name of a node: {_NAME_RULE}")
    if not hello.boot_id:
        return Refused(code="VERSION", message="a hello without a boot id")
    return None


_NAME_RULE: Final = "at most 63 lower-case letters, digits and '-'"


def register(w: Writer, hello: Hello, *, uid: str, now: float, unknown: float) -> Refused | Standing:
    """One transaction. Refused when another machine of this name has renewed within the last `unknown` seconds."""
    found = w.node(hello.node)
    if found is not None and found.boot_id != hello.boot_id:
        lease = next((one for one in w.leases() if one.node == hello.node), None)
        if _held(lease, hello.boot_id, now, unknown):
            message = f"node {hello.node} is connected from another machine, or has been until a moment ago"
            return Refused(code="NODE_TAKEN", message=message)
    _put(w, found, hello, uid=uid, now=now)
    if hello.conditions is not None:
        has_conditions(w, hello.node, hello.conditions, now)
    standing = judge(w, hello, uid=uid, now=now)
    w.renew_leases([(hello.node, hello.boot_id)])
    for report in hello.workers:
        if report.phase != WorkerPhase.EXITED:  # an end is told again with its evidence, which a verdict rests on
            observe(w, hello.node, report)
    if found is not None and found.boot_id and found.boot_id != hello.boot_id:
        _bury(w, hello, now)
    return standing


def has(w: Writer, node: str, inventory: Inventory) -> bool:
    """The node says what it has now."""
    found = w.node(node)
    fields = _fields(inventory)
    if found is None or all(getattr(found, name) == value for name, value in fields.items()):
        return False
    w.patch_node(node, **fields)
    return True


def _held(lease: LeaseRecord | None, boot_id: str, now: float, unknown: float) -> bool:
    return lease is not None and lease.boot_id != boot_id and now - lease.renewed_at < unknown


def _put(w: Writer, found: NodeRecord | None, hello: Hello, *, uid: str, now: float) -> None:
    """Nothing is written when nothing has changed. The phase stays the controller's, the cordon its operator's."""
    fields = _fields(hello.inventory) | {"boot_id": hello.boot_id, "agent_version": hello.agent_version}
    if found is None:
        node = NodeRecord(name=hello.node, uid=uid, phase=NodePhase.READY, created_at=now, phase_since=now, **fields)
        w.put_node(node)
        node_event(w, node, "Registered", f"{hello.node} joined with {_sum(hello.inventory)}", now)
        return
    node = replace(found, **fields)
    if node == found:
        return
    w.put_node(node)
    if found.boot_id != hello.boot_id:
        node_event(w, node, "Rebooted", f"{hello.node} came back with a new boot id", now, level="warning")


def _bury(w: Writer, hello: Hello, now: float) -> None:
    """A new boot id is proof that every process of the old boot is dead. What was only just assigned has none yet: it
    stays, and the agent gets it."""
    told = {report.worker_uid for report in hello.workers}
    for worker in w.workers_of_node(hello.node):
        if worker.uid in told or worker.phase is WorkerPhase.ASSIGNED:
            continue
        w.move_worker(
            worker.uid,
            WorkerPhase.EXITED,
            problem=VANISHED,
            message=f"node {hello.node} has been booted anew",
            ended_at=now,
        )


def _fields(inventory: Inventory) -> dict[str, Any]:
    return {
        "host": inventory.host,
        "address": inventory.address,
        "interface": inventory.interface,
        "labels": inventory.labels,
        "cpu_milli": inventory.cpu_milli,
        "memory": inventory.memory,
        "devices": inventory.devices,
        "ephemeral_ports": inventory.ephemeral_ports,
        "nics": inventory.nics,
        "problems": inventory.problems,
    }


def _sum(inventory: Inventory) -> str:
    kinds = sorted({device.type for device in inventory.devices})
    devices = ", ".join(f"{sum(one.type == kind for one in inventory.devices)} {kind}" for kind in kinds)
    return devices or "no accelerators"
