"""What agents run and the database does not know, as an operator sees it."""

from collections.abc import Iterable

from api import holding
from api.views import RebuildView, StrayView, StrayWorkerView
from controller.acts.rebuild import Stray, silent
from controller.records import LeaseRecord, NodeRecord
from controller.state import ClusterRecord, StrayRecord


def rebuild(
    cluster: ClusterRecord,
    nodes: Iterable[NodeRecord],
    leases: Iterable[LeaseRecord],
    attempts: Iterable[StrayView],
) -> RebuildView:
    nodes = list(nodes)
    return {
        "hold": holding.words(cluster, nodes),
        "cluster": cluster.incarnation,
        "nodes": sorted(node.name for node in nodes if node.held),
        "silent": silent(cluster, nodes, leases),
        "attempts": list(attempts),
    }


def stray(one: Stray, problem: str = "", restored: bool = False) -> StrayView:
    told = one.told
    return {
        "attempt": one.uid,
        "namespace": told.namespace if told else "",
        "job": told.job if told else "",
        "jobUid": told.job_uid if told else "",
        "number": told.number if told else 0,
        "epoch": one.workers[0].epoch,
        "workers": [stray_worker(worker) for worker in one.workers],
        "missing": one.missing,
        "problem": problem or one.problem,
        "restored": restored,
    }


def stray_worker(one: StrayRecord) -> StrayWorkerView:
    told = one.assignment
    processes = told.template.processes if told else ()
    return {
        "uid": one.worker_uid,
        "role": told.role if told else "",
        "index": told.index if told else 0,
        "node": one.node,
        "phase": one.report.phase,
        "devices": list(told.devices) if told else [],
        "ports": list(told.ports) if told else [],
        "command": list(processes[0]) if processes else [],
    }
