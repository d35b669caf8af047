"""Silence becomes Unknown, the fence makes Lost, a renewal brings back."""

from collections.abc import Iterable

from controller.acts.log import node_event
from controller.leases import LeaseWatch
from controller.picture import Picture
from controller.records import NodeRecord, WorkerRecord
from controller.state.store import Store
from controller.state.types import LeaderLease
from controller.state.writing import Writer
from muster.evidence import Evidence, Source
from muster.quantity import format_duration
from muster.states import WORKER_TERMINAL, NodePhase, WorkerPhase


def judge_nodes(
    store: Store, guard: LeaderLease, picture: Picture, watch: LeaseWatch, *, now: float, boottime: float
) -> bool:
    """Write every node and worker whose lease says something new. True when something was written."""
    moved = [
        (node, phase) for node in picture.nodes.values() if (phase := watch.phase(node, boottime)) is not node.phase
    ]
    fenced = [worker for worker in _on_silent_nodes(picture) if watch.fenced(worker, boottime)]
    if not moved and not fenced:
        return False
    with store.write(guard) as w:
        for node, phase in moved:
            _move(w, node, phase, silence=watch.silence(node.name, boottime), now=now)
        for worker in fenced:
            _lose(w, worker, silence=watch.silence(worker.node, boottime), now=now)
    return True


def _on_silent_nodes(picture: Picture) -> Iterable[WorkerRecord]:
    for group in picture.workers.values():
        for worker in group.values():
            node = picture.nodes.get(worker.node)
            if worker.phase not in WORKER_TERMINAL and (node is None or node.phase is not NodePhase.READY):
                yield worker


def _move(w: Writer, node: NodeRecord, phase: NodePhase, *, silence: float, now: float) -> None:
    for_ = format_duration(silence)
    reason, message = {
        NodePhase.READY: ("NodeReady", "renews its lease again"),
        NodePhase.UNKNOWN: ("NodeUnknown", f"has not renewed its lease for {for_}; nothing is stopped yet"),
        NodePhase.LOST: (
            "NodeLost",
            f"has not renewed its lease for {for_}: its shims have stopped their ranks, its work is replaced",
        ),
    }[phase]
    w.move_node(node.name, phase, phase_since=now, message="" if phase is NodePhase.READY else message)
    node_event(
        w, node, reason, f"{node.name} {message}", now, level="normal" if phase is NodePhase.READY else "warning"
    )


def _lose(w: Writer, worker: WorkerRecord, *, silence: float, now: float) -> None:
    current = w.worker(worker.uid)
    if current is None or current.phase in WORKER_TERMINAL:
        return
    w.move_worker(
        worker.uid,
        WorkerPhase.LOST,
        ended_at=now,
        message=f"no renewal from {worker.node} for {format_duration(silence)}",
    )
    w.add_evidence(
        [
            Evidence(
                source=Source.NODE,
                at=now - silence,
                attempt=worker.attempt_uid,
                node=worker.node,
                role=worker.role,
                worker=worker.index,
                text=f"node {worker.node} stopped renewing its lease and passed the fence",
                data={"phase": "Lost", "silence": silence},
            )
        ]
    )
