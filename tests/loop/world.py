"""A small world for the loop: the real store on SQLite, a manual clock, and nodes that behave as their agents would."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from controller.acts.observations import record_observation
from controller.executors.agents import AgentsExecutor
from controller.executors.base import Observation
from controller.loop import Loop
from controller.records import AttemptRecord, JobRecord, WorkerRecord
from controller.state.leader import Election
from controller.state.store import open_store
from muster.clock import ManualClock
from muster.evidence import Evidence, Source
from muster.protocol import CheckpointItem, Lease, ProgressPoint, RankExit
from muster.states import WORKER_TERMINAL, JobPhase, WorkerPhase
from tests.makers import make_job, make_node

LEASE = Lease(renew=0.5, unknown=2.0, fence=5.0, margin=1.0)
LEAVES = {"n0": "b0-l0", "n1": "b0-l0", "n2": "b0-l1", "n3": "b0-l1"}


def counter(prefix: str = "id") -> Callable[[], str]:
    numbers: Iterator[int] = iter(range(1, 10**9))
    return lambda: f"{prefix}{next(numbers):08d}"


class World:
    """Four nodes of eight devices in two leaves of one block, as in the embedded cluster."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.new_id = counter()
        self.store = open_store(f"sqlite:///{folder}/world.db", clock=self.clock, new_id=self.new_id)
        self.store.migrate()
        self.published: list[int] = []
        self.silent: set[str] = set()
        self.deaf: set[str] = set()  # nodes that renew but act on nothing
        self.zombies: list[tuple[str, str]] = []
        with self.store.write() as w:
            for name, leaf in LEAVES.items():
                w.put_node(make_node(name, labels={"muster.dev/block": "b0", "muster.dev/leaf": leaf}))
        self.renew()
        self.lead()

    def lead(self) -> None:
        """A new leader, as after a crash: nothing of the old one is kept but the database."""
        self.election = Election(self.store, self.new_id(), self.clock, 10.0)
        guard = self.election.campaign()
        while guard is None:
            self.clock.advance(5.0)
            self.renew()
            guard = self.election.campaign()
        self.guard = guard
        self.loop = Loop(
            store=self.store,
            guard=guard,
            executor=AgentsExecutor(),
            publish=self.published.append,
            outbox=lambda _now: None,
            clock=self.clock,
            new_id=self.new_id,
            lease=LEASE,
        )

    # -- time and nodes ------------------------------------------------------------------------------

    def renew(self) -> None:
        self.store.transact(lambda w: w.renew_leases([(name, "boot-1") for name in LEAVES if name not in self.silent]))

    def step(self, seconds: float = 0.1) -> None:
        """Nodes act, the loop looks, time passes."""
        self.loop.cycle()
        self.act()
        self.loop.cycle()
        self.clock.advance(seconds)
        self.renew()
        self.election.renew(self.guard)

    def until(self, true: Callable[[], bool], steps: int = 300, seconds: float = 0.1) -> None:
        for _ in range(steps):
            if true():
                return
            self.step(seconds)
        raise AssertionError(
            f"never came true; jobs: {[(j.name, j.phase, j.reason, j.message) for j in self.store_jobs()]}"
        )

    def later(self, time: float) -> None:
        """A new leader at a later time, of which all nodes have been heard."""
        self.clock.advance(max(0.0, time - self.clock.now() - 20.0))
        self.renew()
        self.lead()

    def act(self) -> None:
        """What every reachable agent does with what it should have."""
        for node in LEAVES:
            if node in self.silent or node in self.deaf:
                continue
            with self.store.read() as r:
                workers = r.workers_of_node(node)
            for worker in workers:
                self._act(worker)

    def _act(self, worker: WorkerRecord) -> None:
        phase = worker.phase
        if worker.desired == "stop":
            self.report(
                worker, WorkerPhase.EXITED, exits=worker.exits or (RankExit(process=0, signal=15, at=self.clock.now()),)
            )
        elif worker.desired == "prepare" and phase is WorkerPhase.ASSIGNED:
            self.report(worker, WorkerPhase.PREPARING)
        elif worker.desired == "prepare" and phase is WorkerPhase.PREPARING:
            self.report(worker, WorkerPhase.READY)
        elif worker.desired == "run" and phase is WorkerPhase.READY:
            self.report(worker, WorkerPhase.RUNNING)

    def report(self, worker: WorkerRecord, phase: WorkerPhase, **fields: Any) -> None:
        seen = Observation(
            worker_uid=worker.uid,
            attempt_uid=worker.attempt_uid,
            epoch=worker.epoch,
            phase=phase,
            at=self.clock.now(),
            template_revision=worker.template_revision,
            **fields,
        )
        self.store.transact(lambda w: record_observation(w, seen))

    def exit(self, worker: WorkerRecord, code: int | None = None, signal: int | None = None, log: str = "") -> None:
        """The worker's process ends; its agent confirms it with the tail of the log."""
        evidence = [
            Evidence(
                source=Source.EXIT,
                at=self.clock.now(),
                attempt=worker.attempt_uid,
                node=worker.node,
                role=worker.role,
                worker=worker.index,
                rank=worker.index,
                data={"code": code, "signal": signal},
            )
        ]
        if log:
            evidence.append(
                Evidence(
                    source=Source.LOG,
                    at=self.clock.now(),
                    attempt=worker.attempt_uid,
                    node=worker.node,
                    role=worker.role,
                    worker=worker.index,
                    rank=worker.index,
                    text=log,
                )
            )
        exits = (RankExit(process=0, rank=worker.index, code=code, signal=signal, at=self.clock.now()),)
        self.report(worker, WorkerPhase.EXITED, exits=exits, evidence=tuple(evidence))

    def progress(self, attempt: AttemptRecord, step: int) -> None:
        def write(w: Any) -> None:
            w.add_progress(attempt.uid, [ProgressPoint(step=step, at=self.clock.now(), rank=0)])
            w.patch_attempt(attempt.uid, last_step=step, first_step=attempt.first_step or step)

        self.store.transact(write)

    def checkpoint(self, attempt: AttemptRecord, *items: tuple[str, int, bool]) -> None:
        stock = [
            CheckpointItem(path=path, step=step, format="marker", complete=complete) for path, step, complete in items
        ]
        self.store.transact(lambda w: w.put_checkpoints(attempt.job_uid, attempt.uid, attempt.epoch, stock))

    # -- jobs ----------------------------------------------------------------------------------------

    def submit(self, name: str = "train", workers: int = 2, **spec: Any) -> JobRecord:
        full = {
            "workers": workers,
            "accelerators": [{"type": "h100", "count": 2}],
            "topology": {"required": "leaf"},
            "recovery": {"maxRestarts": 5, "noProgressLimit": 2},
            **spec,
        }
        job = make_job(name, uid=self.new_id(), spec=full, created_at=self.clock.now(), queued_at=self.clock.now())
        self.store.transact(lambda w: w.insert_job(job))
        return job

    def wish(self, job: JobRecord, **fields: Any) -> None:
        self.store.transact(lambda w: w.patch_job(job.uid, **fields))

    def store_jobs(self) -> list[JobRecord]:
        with self.store.read() as r:
            return r.jobs()

    def job(self, job: JobRecord) -> JobRecord:
        with self.store.read() as r:
            found = r.job(job.uid)
        assert found is not None
        return found

    def attempts(self, job: JobRecord) -> list[AttemptRecord]:
        with self.store.read() as r:
            return r.attempts(job.uid)

    def workers(self, attempt: AttemptRecord) -> list[WorkerRecord]:
        with self.store.read() as r:
            return r.workers(attempt.uid)

    def live_workers(self, job: JobRecord) -> list[WorkerRecord]:
        return [w for w in self.workers(self.attempts(job)[-1]) if w.phase not in WORKER_TERMINAL]

    def phase_is(self, job: JobRecord, phase: JobPhase, attempt: int | None = None) -> Callable[[], bool]:
        def true() -> bool:
            return self.job(job).phase is phase and (attempt is None or len(self.attempts(job)) == attempt)

        return true

    def run(self, job: JobRecord, attempt: int = 1) -> list[WorkerRecord]:
        """Until the job's given attempt is running; its workers."""
        self.until(self.phase_is(job, JobPhase.RUNNING, attempt))
        return self.workers(self.attempts(job)[-1])
