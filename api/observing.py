"""One worker as its agent sees it, written where the executors' observations go."""

import math

import structlog

from controller.acts.observations import record_observation
from controller.executors.base import Observation
from controller.state import Writer
from muster.protocol import WorkerReport
from muster.states import WorkerPhase

log = structlog.get_logger("muster.api")


def observe(w: Writer, node: str, report: WorkerReport) -> bool:
    """One worker as its agent sees it. Whatever is not this node's, or not of this epoch, is ignored."""
    worker = w.worker(report.worker_uid)
    if worker is None or worker.node != node or report.phase not in list(WorkerPhase):
        log.warning("a report about a worker that this node does not have", node=node, worker=report.worker_uid)
        return False
    changed = record_observation(
        w,
        Observation(
            worker_uid=report.worker_uid,
            attempt_uid=report.attempt,
            epoch=report.epoch,
            phase=WorkerPhase(report.phase),
            at=report.at if sound_time(report.at) else 0.0,
            template_revision=report.revision,
            exits=report.exits,
            problem=report.problem,
            message=report.message,
            busy_ports=report.busy_ports,
            examined=report.examined,
        ),
    )
    if not changed and report.phase != worker.phase:
        log.info(
            "a report that is too old is ignored",
            node=node,
            worker=worker.uid,
            phase=worker.phase,
            reported=report.phase,
            epoch=report.epoch,
        )
    return changed


def sound_time(at: float) -> bool:
    """Whether a time that an agent gave can be a time."""
    return math.isfinite(at) and abs(at) < 2**62
