"""This node's side of the agent protocol: what is wanted of it, what runs on it, what it has to report.

No sockets here: sync.py carries the frames. State that must outlive the agent is on disk before it is acted
upon: assignments and diaries in the workers' folders, the highest epoch of each restart scope in state.json.
"""

import asyncio
import logging
import os
from pathlib import Path

import msgspec
from msgspec import Struct

from agents.config import AgentConfig
from agents.health.monitor import Monitor
from agents.runtime import diary, prepare
from agents.runtime.children import Children
from agents.runtime.containers.choosing import choose
from agents.runtime.containers.pulling import Images
from agents.runtime.decide import Wanted
from agents.runtime.folder import Folder, replace
from agents.runtime.users import Users
from agents.runtime.worker import Surroundings, Worker
from muster.clock import Clock
from muster.evidence import Evidence
from muster.protocol import (
    Assignment,
    CheckpointItem,
    Desired,
    Hello,
    Inventory,
    LiveWorker,
    LogAck,
    LogChunk,
    ProgressPoint,
    Report,
    Stock,
    WorkerReport,
)
from muster.states import WorkerPhase
from muster.version import PROTOCOL, VERSION

log = logging.getLogger("muster.agent")


class State(Struct):
    """`epochs`: the highest epoch seen of each restart scope, by "job uid/scope". `cluster`: the database that last said
    what this node should have."""

    epochs: dict[str, int] = {}
    cluster: str = ""


class Node:
    """`changed` is set whenever there is something to report, `started` when a worker has begun to run."""

    def __init__(
        self,
        config: AgentConfig,
        inventory: Inventory,
        boot_id: str,
        *,
        clock: Clock,
        children: Children,
        environ: dict[str, str],
        users: Users | None = None,
    ) -> None:
        self._config, self._inventory, self._boot_id, self._clock = config, inventory, boot_id, clock
        self._children, self._users = children, users or Users({})
        self._attempts, self._state_path = config.directory / "attempts", config.directory / "state.json"
        state = _load(self._state_path)
        self._epochs, self._cluster = state.epochs, state.cluster
        self._unsaved = False
        self._refusals: dict[str, WorkerReport] = {}
        self._lease_from = 0.0
        self._workers: dict[str, Worker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._outstanding: tuple[Report, dict[str, int]] | None = None
        self._seq = int(clock.boottime() * 1000)  # grows over restarts of the agent within one boot
        self.generation = 0
        self.changed, self.started, self._leased = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.health = Monitor(
            config,
            inventory,
            boot_id,
            clock=clock,
            children=children,
            held=self._held,
            witness=self._witness,
            changed=self.changed.set,
        )
        self._around = Surroundings(
            name=config.node,
            archive=config.directory / "diaries",
            node=prepare.Node(
                address=config.address,
                interface=inventory.interface,
                server=config.server,
                boot_id=boot_id,
                environ=environ,
                inventory=self.health.inventory,
                users=self._users,
                engine=choose(config.engine, environ.get("PATH", os.defpath), config.directory / "images"),
            ),
            clock=clock,
            children=children,
            lease_from=lambda: self._lease_from,
            leased=self._leased,
            changed=self._something_changed,
            in_the_way=self._in_the_way,
            images=Images(children),
            hooks=config.hooks,
        )

    def _something_changed(self) -> None:
        self.changed.set()
        if self.busy():
            self.started.set()

    def _in_the_way(self, assignment: Assignment) -> str:
        """A namespace that runs here and could not be told apart from this one; empty when there is none."""
        others = (worker for uid, worker in self._workers.items() if uid != assignment.worker_uid)
        return next(
            (
                other.assignment.namespace
                for other in others
                if other.occupies() and not self._users.apart(assignment.namespace, other.assignment.namespace)
            ),
            "",
        )

    def adopt(self) -> None:
        """Take up the workers that an earlier agent has left in this folder."""
        self._attempts.mkdir(parents=True, exist_ok=True, mode=0o711)
        for path in sorted(self._attempts.iterdir()):
            assignment = Folder(path).load()
            if assignment is None:
                Folder(path).remove()  # its prepare was cut short before anything could start
            else:
                self._add(assignment)

    # -- what is wanted ------------------------------------------------------------------------------

    def renewed(self, sent: float) -> None:
        """The lease runs from `sent` (CLOCK_BOOTTIME)."""
        self._lease_from = max(self._lease_from, sent)
        self._leased.set()
        for worker in self._workers.values():
            worker.renewed()

    def apply(self, desired: Desired) -> None:
        """Level-triggered. A new worker that cannot be remembered, because the disk is full, is refused. What was said
        before something newer, and has come after it, is out of date."""
        if desired.generation < self.generation:
            return
        trouble = self._remember_epochs(desired.assignments)
        listed = {assignment.worker_uid: assignment for assignment in desired.assignments}
        for assignment in desired.assignments:
            try:
                if trouble is not None and assignment.worker_uid not in self._workers:
                    raise trouble
                self._take(assignment)
            except OSError as error:
                self._refuse(assignment, error)
        for uid, worker in self._workers.items():
            if uid not in listed:
                worker.want(Wanted(desired=""))
        self.health.do(desired.tasks)
        self.generation = desired.generation

    def _take(self, assignment: Assignment) -> None:
        worker = self._workers.get(assignment.worker_uid)
        stale = assignment.epoch < self._epochs[_scope(assignment)]
        if worker is None:
            worker = self._first(assignment, stale)
        elif worker.assignment != assignment:
            worker.folder.save(assignment)
        desired = "stop" if stale else assignment.desired
        worker.want(Wanted(desired=desired, revision=assignment.revision), assignment)

    def _first(self, assignment: Assignment, stale: bool) -> Worker:
        """A worker that this agent has never had. One that should run already did so before its folder was lost."""
        folder = Folder(self._attempts / assignment.worker_uid)
        folder.save(assignment)
        if folder.from_archive(self._around.archive):
            return self._add(assignment)
        now, boottime = self._clock.now(), self._clock.boottime()
        if stale:
            message = (
                f"epoch {assignment.epoch} is older than {self._epochs[_scope(assignment)]}, which this node has seen"
            )
            diary.append(folder.diary, "refused", at=now, boottime=boottime, problem="STALE_EPOCH", message=message)
        elif assignment.desired == "run":
            diary.append(folder.diary, "go", at=now, boottime=boottime, note="the worker's folder was lost")
        return self._add(assignment)

    def _add(self, assignment: Assignment) -> Worker:
        worker = Worker(Folder(self._attempts / assignment.worker_uid), assignment, self._around)
        self._workers[worker.uid] = worker
        task = asyncio.get_running_loop().create_task(worker.run(), name=f"worker {worker.uid}")
        self._tasks[worker.uid] = task
        task.add_done_callback(lambda _: self._drop(worker.uid))
        return worker

    def _drop(self, uid: str) -> None:
        if self._workers[uid].forgotten:
            del self._workers[uid], self._tasks[uid]

    def _refuse(self, assignment: Assignment, error: OSError) -> None:
        """Told, and nothing else: without a folder there is nothing that could ever have started."""
        log.warning("worker %s cannot be taken: %s", assignment.worker_uid, error)
        if assignment.worker_uid not in self._workers:
            refusal = prepare.storage_refusal(error, "the agent's folder")
            self._refusals[assignment.worker_uid] = WorkerReport(
                worker_uid=assignment.worker_uid,
                attempt=assignment.attempt,
                epoch=assignment.epoch,
                phase=WorkerPhase.EXITED,
                at=self._clock.now(),
                revision=assignment.revision,
                problem=refusal.code,
                message=refusal.message,
            )
            self.changed.set()

    def _remember_epochs(self, assignments: tuple[Assignment, ...]) -> OSError | None:
        for assignment in assignments:
            scope = _scope(assignment)
            if assignment.epoch > self._epochs.get(scope, 0):
                self._epochs[scope], self._unsaved = assignment.epoch, True
        return self._save()

    def _save(self) -> OSError | None:
        if self._unsaved:
            try:
                replace(self._state_path, msgspec.json.encode(State(self._epochs, self._cluster)), durable=True)
            except OSError as error:
                return error
            self._unsaved = False
        return None

    # -- what there is to tell -----------------------------------------------------------------------

    def hello(self) -> Hello:
        inventory, conditions = self.health.greeted()
        return Hello(
            v=PROTOCOL,
            node=self._config.node,
            boot_id=self._boot_id,
            agent_version=VERSION,
            inventory=inventory,
            conditions=conditions,
            observed=self.generation,
            workers=tuple(worker.report for worker in self._workers.values()),
            cluster=self._cluster,
        )

    def welcomed(self, cluster: str) -> None:
        """It is this database that tells this node from now on what it should have."""
        if cluster and cluster != self._cluster:
            self._cluster, self._unsaved = cluster, True
            self.generation = 0
            if (error := self._save()) is not None:
                log.warning("the cluster's incarnation cannot be remembered: %s", error)

    def stock(self) -> Stock:
        """For a database that may have forgotten: all workers with what they were told, and the newest epochs."""
        workers = tuple(LiveWorker(assignment=one.assignment, report=one.report) for one in self._workers.values())
        return Stock(workers=workers, epochs=self._epochs)

    def next_report(self) -> Report | None:
        """The report that waits for its acknowledgement, or else a new one; None when there is nothing to tell."""
        if self._outstanding is not None:
            return self._outstanding[0]
        telling = [worker for worker in self._workers.values() if worker.telling.pending()]
        health = self.health.pending()
        if not telling and not self._refusals and not health:
            return None
        versions: dict[str, int] = {}
        evidence: list[Evidence] = []
        progress: dict[str, tuple[ProgressPoint, ...]] = {}
        checkpoints: dict[str, tuple[CheckpointItem, ...]] = {}
        for worker in telling:
            attempt, news = worker.assignment.attempt, worker.telling.take()
            versions[worker.uid] = worker.telling.version
            evidence += news.evidence
            if news.points:
                progress[attempt] = (*progress.get(attempt, ()), *news.points)
            if news.stock is not None:
                checkpoints[attempt] = news.stock
        self._seq += 1
        reports = (*(worker.report for worker in telling), *self._refusals.values())
        inventory, conditions, results = self.health.news() if health else (None, None, ())
        report = Report(
            seq=self._seq,
            workers=reports,
            evidence=tuple(evidence),
            progress=progress,
            checkpoints=checkpoints,
            inventory=inventory,
            conditions=conditions,
            results=results,
        )
        self._outstanding = (report, versions)
        return report

    def pending(self) -> bool:
        if self._refusals or self.health.pending():
            return True
        return any(worker.telling.pending() for worker in self._workers.values())

    def urgent(self) -> bool:
        """Whether there is more to tell than progress."""
        urgent = any(worker.telling.urgent() for worker in self._workers.values())
        return urgent or bool(self._refusals) or self._outstanding is not None or self.health.pending()

    def acked(self, seq: int) -> bool:
        """The report `seq` is committed."""
        if self._outstanding is None or self._outstanding[0].seq != seq:
            return False
        report, versions = self._outstanding
        self._outstanding = None
        self.health.told(report.inventory, report.conditions, report.results)
        for told in report.workers:
            if told.worker_uid not in versions:
                self._refusals.pop(told.worker_uid, None)
            elif (worker := self._workers.get(told.worker_uid)) is not None:
                worker.acknowledged(told, versions[worker.uid])
        return True

    def worker(self, uid: str) -> Worker | None:
        return self._workers.get(uid)

    # -- logs and progress ---------------------------------------------------------------------------

    def poll(self) -> bool:
        """Look into the files of running workers. True when something was new."""
        active = False
        for worker in self._workers.values():
            if worker.history.went and not worker.telling.concluded:
                active |= worker.telling.poll(worker.history)
        return active

    def next_log(self) -> LogChunk | None:
        """Workers take turns."""
        for uid, worker in self._workers.items():
            if worker.history.went and (chunk := worker.telling.next_log()) is not None:
                self._workers[uid] = self._workers.pop(uid)
                return chunk
        return None

    def log_acked(self, ack: LogAck) -> None:
        worker = self._workers.get(ack.worker_uid)
        if worker is not None:
            worker.telling.log_acked(ack.rank, ack.offset, ack.begin)
            if worker.wanted.desired == "":
                worker.wake()

    def stream_broke(self) -> None:
        self._leased.clear()
        self.send_logs_again()

    def send_logs_again(self) -> None:
        """From what was last acknowledged."""
        for worker in self._workers.values():
            worker.telling.stream_broke()

    def busy(self) -> bool:
        """Whether there is any worker whose files are worth looking at."""
        busy = any(worker.history.went for worker in self._workers.values())
        if not busy:
            self.started.clear()
        return busy

    def _held(self) -> dict[int, str]:
        """Device to the uid of the worker that has it."""
        return {
            device: uid
            for uid, worker in self._workers.items()
            if not worker.telling.concluded
            for device in worker.assignment.devices
        }

    def _witness(self, sight: Evidence) -> None:
        """What befalls a device is evidence for the worker that has it, what befalls the node for all."""
        for worker in self._workers.values():
            if worker.history.went and (sight.device is None or sight.device in worker.assignment.devices):
                worker.telling.witness(sight)

    async def close(self) -> None:
        """The agent ends; its shims and their ranks go on."""
        self.health.close()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


def _scope(assignment: Assignment) -> str:
    return f"{assignment.job_uid}/{assignment.scope}"


def _load(path: Path) -> State:
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except FileNotFoundError:
        return State()
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); it guards against running an old attempt") from None
