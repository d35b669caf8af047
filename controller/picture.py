"""The loop's own view of what lives: records by uid, kept up to date from the change log.

The planner's index answers "where is room"; this answers "what is going on". Both are fed by the same
changes, in revision order.
"""

from collections.abc import Iterable

from controller.records import AttemptRecord, Change, JobRecord, NodeRecord, Record, RepairRecord, WorkerRecord
from muster.states import JOB_TERMINAL, REPAIR_TERMINAL, WORKER_TERMINAL, AttemptPhase, JobPhase


class Picture:
    """Live jobs, live attempts with their workers, nodes, open repairs. `touched` collects the uids of jobs to look at."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.jobs: dict[str, JobRecord] = {}
        self.attempts: dict[str, AttemptRecord] = {}
        self._attempts_of: dict[str, dict[str, AttemptRecord]] = {}
        self.workers: dict[str, dict[str, WorkerRecord]] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.repairs: dict[str, RepairRecord] = {}
        self.touched: set[str] = set()
        self.recovering: set[str] = set()
        self._followers: dict[tuple[str, str], set[str]] = {}  # by what they come after
        for record in records:
            self._put(record)

    def apply(self, changes: Iterable[Change]) -> None:
        for change in changes:
            if change.op == "delete" or change.record is None:
                self._forget(change)
            else:
                self._put(change.record)

    def attempts_of(self, job_uid: str) -> list[AttemptRecord]:
        return list(self._attempts_of.get(job_uid, {}).values())

    def workers_of(self, attempt_uid: str) -> list[WorkerRecord]:
        """In rank order."""
        return sorted(self.workers.get(attempt_uid, {}).values(), key=lambda worker: (worker.role, worker.index))

    def workers_on(self, node: str) -> list[WorkerRecord]:
        return [worker for group in self.workers.values() for worker in group.values() if worker.node == node]

    def _put(self, record: Record) -> None:
        match record:
            case JobRecord():
                self._put_job(record)
            case AttemptRecord():
                self._put_attempt(record)
            case WorkerRecord():
                self._put_worker(record)
            case NodeRecord():
                self.nodes[record.name] = record
            case RepairRecord(phase=phase) if phase in REPAIR_TERMINAL:
                self.repairs.pop(record.uid, None)
            case RepairRecord():
                self.repairs[record.uid] = record
            case _:
                pass

    def _put_job(self, job: JobRecord) -> None:
        self.recovering.discard(job.uid)
        if job.phase is JobPhase.RECOVERING:
            self.recovering.add(job.uid)
        if job.phase in JOB_TERMINAL:
            self.jobs.pop(job.uid, None)
        else:
            self.jobs[job.uid] = job
            self.touched.add(job.uid)
            for entry in job.spec.get("after") or ():
                self._followers.setdefault((job.namespace, entry["job"]), set()).add(job.uid)
        if job.parent:
            self.touched.add(job.parent)
        self.touched |= self._followers.get((job.namespace, job.name), set())

    def _put_attempt(self, attempt: AttemptRecord) -> None:
        if attempt.phase is AttemptPhase.ENDED:
            self._drop_attempt(attempt.uid)
        else:
            self.attempts[attempt.uid] = attempt
            self._attempts_of.setdefault(attempt.job_uid, {})[attempt.uid] = attempt
        self.touched.add(attempt.job_uid)

    def _drop_attempt(self, uid: str) -> None:
        self.workers.pop(uid, None)
        dropped = self.attempts.pop(uid, None)
        if dropped is not None:
            others = self._attempts_of[dropped.job_uid]
            del others[uid]
            if not others:
                del self._attempts_of[dropped.job_uid]

    def _put_worker(self, worker: WorkerRecord) -> None:
        """A late word of a worker whose attempt is over is no news."""
        if worker.phase in WORKER_TERMINAL and worker.attempt_uid not in self.attempts:
            return
        self.workers.setdefault(worker.attempt_uid, {})[worker.uid] = worker
        self.touched.add(worker.job_uid)

    def _forget(self, change: Change) -> None:
        match change.kind:
            case "Job":
                self.jobs.pop(change.uid, None)
                self.recovering.discard(change.uid)
            case "Attempt":
                self._drop_attempt(change.uid)
            case "Node":
                self.nodes = {name: node for name, node in self.nodes.items() if node.uid != change.uid}
            case _:
                pass
