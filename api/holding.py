"""Attempts that run and that this database does not know: nothing is stopped before an operator has decided.

A database has an incarnation, and agents remember that of the last one that told them anything. Where the two are
the same, an attempt that the database does not know is a zombie, and it is stopped. Where they differ the database
was made afresh or restored from a backup: it is the database that forgot. Then the node is on hold. Its leases are
renewed, so that its shims do not run into their fence, and nothing else is said to it.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller.acts.log import node_event
from controller.records import NodeRecord
from controller.state import ClusterRecord, StrayRecord, Writer
from muster.protocol import Hello, LiveWorker, Stock, WorkerReport
from muster.states import WorkerPhase

WENT_BACK: Final = "the database went back: an agent has seen revision {seen}, and it is at {now}"


class Standing(Struct, frozen=True):
    """What a node is told of its place: the database's incarnation, whether it is to send its stock, whether it is on
    hold."""

    cluster: str
    take_stock: bool
    held: bool


def judge(w: Writer, hello: Hello, *, uid: str, now: float) -> Standing:
    """What becomes of a node that arrives. Puts it, or everything, on hold where that must be."""
    cluster = w.cluster()
    if hello.cluster and hello.cluster == cluster.incarnation and hello.observed > (revision := w.newest_revision()):
        why = WENT_BACK.format(seen=hello.observed, now=revision)
        w.put_cluster(
            replace(cluster, incarnation=uid, held_since=cluster.held_since or now, held_why=why),
            before=cluster.incarnation,
        )
        cluster = w.cluster()
    foreign = hello.cluster != cluster.incarnation
    strange = [report for report in hello.workers if foreign and _unknown(w, report)]
    node = w.node(hello.node)
    known = {one.worker_uid: one for one in w.strays(hello.node)}
    kept = [replace(known.get(one.worker_uid) or _bare(hello.node, one, now), report=one) for one in strange]
    if kept != list(known.values()):
        w.replace_strays(hello.node, kept)
    held = any(_lives(one.report) and not one.discarded for one in kept)
    if node is not None:
        _mark(w, node, held, now)
    return Standing(cluster.incarnation, foreign, held or cluster.held_since is not None)


def take(w: Writer, node: str, stock: Stock, now: float) -> None:
    """What a node has, as it says itself: what is not known is kept for the operator, and no epoch goes back."""
    for scope, epoch in stock.epochs.items():
        job = w.job(scope.partition("/")[0])
        if job is not None and max(job.epoch, job.epoch_floor) < epoch < 2**62:
            w.patch_job(job.uid, epoch_floor=epoch)
    discarded = {one.worker_uid for one in w.strays(node) if one.discarded}
    strays = [
        replace(_bare(node, one.report, now), assignment=one.assignment, discarded=one.report.worker_uid in discarded)
        for one in stock.workers
        if _unknown(w, one.report) and _consistent(one)
    ]
    w.replace_strays(node, strays)
    if (record := w.node(node)) is not None and record.held:
        _mark(w, record, any(_lives(one.report) and not one.discarded for one in strays), now)


def on_hold(cluster: ClusterRecord, node: NodeRecord | None) -> bool:
    return cluster.held_since is not None or (node is not None and node.held)


def words(cluster: ClusterRecord, nodes: Iterable[NodeRecord]) -> str:
    """Why something is on hold, for people; empty when nothing is."""
    if cluster.held_since is not None:
        return f"everything is on hold: {cluster.held_why}; see `muster admin rebuild-from-agents`"
    if held := sorted(node.name for node in nodes if node.held):
        return f"{', '.join(held)}: on hold, with attempts that are not known; see `muster admin rebuild-from-agents`"
    return ""


def _mark(w: Writer, node: NodeRecord, held: bool, now: float) -> None:
    if node.held == held:
        return
    w.patch_node(node.name, held=held)
    if held:
        message = f"{node.name} runs attempts that this database does not know; nothing is stopped until you decide"
        node_event(w, node, "OnHold", f"{message}: muster admin rebuild-from-agents", now, level="warning")
    else:
        node_event(w, node, "HoldEnded", f"{node.name} is told again what it should have", now)


def _unknown(w: Writer, report: WorkerReport) -> bool:
    return w.attempt(report.attempt) is None


def _lives(report: WorkerReport) -> bool:
    return report.phase != WorkerPhase.EXITED


def _consistent(one: LiveWorker) -> bool:
    """The two halves are of one worker."""
    told, seen = one.assignment, one.report
    return (told.worker_uid, told.attempt, told.epoch) == (seen.worker_uid, seen.attempt, seen.epoch)


def _bare(node: str, report: WorkerReport, now: float) -> StrayRecord:
    return StrayRecord(
        worker_uid=report.worker_uid,
        node=node,
        attempt_uid=report.attempt,
        epoch=report.epoch,
        report=report,
        seen_at=now,
    )
