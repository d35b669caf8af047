"""Records with everything filled in that a test does not care about."""

from typing import Any

from controller.records import GANG, AttemptRecord, IncidentRecord, JobRecord, NodeRecord, Verdict, WorkerRecord
from muster.launch import LaunchTemplate


def make_job(uid: str = "job-1", **fields: Any) -> JobRecord:
    spec = {"command": ["true"], "queue": fields.pop("queue", "default")}
    return JobRecord(**{"uid": uid, "namespace": "default", "name": f"name-of-{uid}", "spec": spec} | fields)


def make_attempt(uid: str = "attempt-1", job: str = "job-1", number: int = 1, **fields: Any) -> AttemptRecord:
    given: dict[str, Any] = {
        "uid": uid,
        "job_uid": job,
        "namespace": "default",
        "job_name": f"name-of-{job}",
        "scope": GANG,
        "number": number,
        "epoch": number,
        "rendezvous": f"rendezvous-{uid}",
    }
    return AttemptRecord(**given | fields)


def make_worker(uid: str = "worker-1", attempt: str = "attempt-1", index: int = 0, **fields: Any) -> WorkerRecord:
    given: dict[str, Any] = {
        "uid": uid,
        "attempt_uid": attempt,
        "job_uid": "job-1",
        "namespace": "default",
        "role": "worker",
        "index": index,
        "node": "node-1",
        "host": "host-1",
        "epoch": 1,
        "template": LaunchTemplate(framework="command", processes=(("true",),), env={"A": "b"}),
    }
    return WorkerRecord(**given | fields)


def make_node(name: str = "node-1", **fields: Any) -> NodeRecord:
    return NodeRecord(**{"name": name, "uid": f"uid-of-{name}", "host": f"host-of-{name}"} | fields)


def make_verdict(**fields: Any) -> Verdict:
    return Verdict(**{"category": "crashed_rank", "action": "restart", "why": "rank 1 died of signal 9"} | fields)


def make_incident(uid: str = "incident-1", **fields: Any) -> IncidentRecord:
    given: dict[str, Any] = {
        "uid": uid,
        "job_uid": "job-1",
        "namespace": "default",
        "job_name": "name-of-job-1",
        "attempt_uid": "attempt-1",
        "verdict": make_verdict(),
        "opened_at": 1.0,
    }
    return IncidentRecord(**given | fields)
