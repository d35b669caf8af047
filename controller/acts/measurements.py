"""What active checks measured becomes rows, when their job ends; what is far from its peers is found."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from controller.acts.log import node_event
from controller.records import AttemptRecord, JobRecord, MeasurementRecord, NodeRecord, WorkerRecord
from controller.state.writing import Writer
from muster.evidence import Evidence, Source

NAMESPACE: Final = "muster-checks"
"""Only jobs of this namespace measure: what ranks of others say of a node is their own affair."""
LABEL: Final = "muster.dev/check"
HISTORY: Final = 30 * 86400.0
FEWEST: Final = 3
"""Peers of the same kind without which nobody is far from them."""
FAR: Final = 0.85
SPREADS: Final = 5.0
"""An outlier is below FAR of the peers' median, and further below it than SPREADS of their median deviation."""
MOST: Final = 4096
LONGEST: Final = 300


def record_measurements(
    w: Writer,
    job: JobRecord,
    attempt: AttemptRecord,
    workers: Sequence[WorkerRecord],
    *,
    now: float,
    new_id: Callable[[], str],
) -> None:
    """Every measurement once; events on the nodes that are slow or wrong."""
    check = job.labels.get(LABEL, "")
    if job.namespace != NAMESPACE or not check:
        return
    nodes = {one.node: node for one in workers if (node := w.node(one.node)) is not None}
    found = list(measured(w.evidence(attempt.uid), nodes, job, check, new_id))[:MOST]
    if not found:
        return
    before = w.measurements(since=now - HISTORY)
    judged = [replace(one, outlier=outlier(one, [*before, *found])) for one in found]
    w.insert_measurements(judged)
    for one in judged:
        if one.outlier or not one.ok:
            where = f"device {one.device} " if one.device is not None else f"with {one.peer} " if one.peer else ""
            message = f"{one.name} {where}{one.value:.4g} {one.unit}: {one.outlier or one.message}"
            reason = "CheckOutlier" if one.ok else "CheckFailed"
            node_event(w, nodes[one.node], reason, message, now, level="warning")


def measured(
    evidence: Iterable[Evidence],
    nodes: Mapping[str, NodeRecord],
    job: JobRecord,
    check: str,
    new_id: Callable[[], str],
) -> Iterable[MeasurementRecord]:
    """What ranks reported, as far as it makes sense."""
    for item in evidence:
        told, node = item.data.get("measurement"), nodes.get(item.node)
        if item.source is not Source.DEVICE or not isinstance(told, dict) or node is None:
            continue
        value, device = _number(told.get("value")), told.get("device")
        if value is None or not isinstance(told.get("name"), str):
            continue
        yield MeasurementRecord(
            uid=new_id(),
            node=node.name,
            check=check,
            name=told["name"][:40],
            value=value,
            unit=str(told.get("unit", ""))[:20],
            ok=told.get("ok") is not False,
            device=device if isinstance(device, int) and not isinstance(device, bool) else None,
            device_type=node.devices[0].type if node.devices else "cpu",
            peer=str(told.get("peer", ""))[:63],
            message=str(told.get("message", ""))[:LONGEST],
            job_uid=job.uid,
            at=item.at,
        )


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def outlier(one: MeasurementRecord, among: Iterable[MeasurementRecord]) -> str:
    """Empty, or a sentence. Peers are other nodes of the same kind, each with its newest value of this name; devices of one
    node are peers of each other, too."""
    peers: dict[tuple[str, int | None], MeasurementRecord] = {}
    for other in among:
        own = (other.node, other.device) == (one.node, one.device)
        if (other.name, other.device_type, other.unit) == (one.name, one.device_type, one.unit) and not own:
            known = peers.get((other.node, other.device))
            if known is None or known.at <= other.at:
                peers[other.node, other.device] = other
    values = [other.value for other in peers.values()]
    if len(values) < FEWEST:
        return ""
    middle = statistics.median(values)
    spread = statistics.median(abs(value - middle) for value in values)
    if one.value >= FAR * middle or one.value >= middle - SPREADS * spread:
        return ""
    return f"{one.value / middle:.0%} of the median of {len(values)} peers ({middle:.4g} {one.unit})"
