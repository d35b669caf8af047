"""Writing jobs, attempts, workers, nodes and queues."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace
from sqlalchemy import bindparam, delete, exc, select, tuple_, update

from controller.records import (
    AttemptRecord,
    JobRecord,
    MeasurementRecord,
    NodeRecord,
    PolicyRecord,
    ProgramRecord,
    QueueRecord,
    RepairRecord,
    WorkerRecord,
)
from controller.state import tables
from controller.state.beside import beside
from controller.state.errors import Conflict, IllegalMove, NotFound, Taken
from controller.state.facts import FactWriter
from controller.state.holds import HoldWriter
from controller.state.kinds import ATTEMPT, JOB, MEASUREMENT, NODE, POLICIES, PROGRAM, QUEUE, REPAIR, WORKER
from controller.state.limits import MEASUREMENT_SECONDS
from controller.state.promises import PromiseWriter
from controller.state.statements import insert_new
from controller.state.transaction import Transaction
from muster.states import (
    JOB_TERMINAL,
    NODE_MOVES,
    WORKER_TERMINAL,
    AttemptPhase,
    JobPhase,
    NodePhase,
    RepairPhase,
    WorkerPhase,
)

_set_beside = update(tables.jobs).where(tables.jobs.c.uid == bindparam("the_uid"))


class JobWriter(Transaction):
    def insert_job(self, record: JobRecord) -> JobRecord:
        """Taken when a live job has its name or its checkpoint directory."""
        taken = f"there is already a live job {record.name} in namespace {record.namespace}, or one with its directory"
        self._insert(JOB, [record], taken, **beside(record.spec))
        return record

    def insert_jobs(self, records: Iterable[JobRecord]) -> None:
        """Written at the commit, in one go; Taken only then, for whoever comes first in another transaction. Until
        then this transaction does not see them."""
        for record in records:
            self._born.add(record.uid)
            self._buffer.put(JOB, record, row=JOB.values(record) | beside(record.spec))

    def move_job(self, uid: str, to_phase: JobPhase, **fields: Any) -> JobRecord:
        """IllegalMove unless `muster.states` lists the move; `fields` are set in the same UPDATE."""
        return self._move(JOB, uid, to_phase, fields)

    def hold_jobs(self, uids: Iterable[str]) -> dict[str, JobRecord]:
        """Those of these jobs that exist, by uid, locked until the end like single ones that are read."""
        return self._hold(JOB, uids)

    def move_jobs(self, to_phase: JobPhase, moves: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """`move_job` of many, all with the same fields."""
        self._change_all(JOB, moves, to_phase)

    def patch_jobs(self, patches: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """`patch_job` of many, all with the same fields; not their specs."""
        self._change_all(JOB, patches)

    def patch_job(self, uid: str, *, expect_revision: int | None = None, **fields: Any) -> JobRecord:
        """Conflict when the job is not at `expect_revision` any more, Taken when a live job has its new directory."""
        record = self._patch(JOB, uid, fields, expect_revision)
        if "spec" in fields:
            try:
                self._connection.execute(_set_beside, {"the_uid": uid, **beside(record.spec)})
            except exc.IntegrityError as error:
                self._spoil(Taken("another live job has its checkpoints in that directory"), error)
        return record

    def delete_job(self, uid: str) -> None:
        """A finished job goes with its attempts, workers, checkpoints, incidents and evidence; its events stay.
        IllegalMove while it lives, Conflict while an attempt of it does."""
        record = self.job(uid)
        if record is None:
            raise NotFound(f"there is no Job {uid}")
        if record.phase not in JOB_TERMINAL:
            raise IllegalMove("Job", uid, record.phase, "deleted")
        if any(attempt.phase != AttemptPhase.ENDED for attempt in self.attempts(uid)):
            raise Conflict(f"job {record.name} is {record.phase}, but its last attempt has not ended yet")
        self._connection.execute(delete(tables.jobs).where(tables.jobs.c.uid == uid))
        self._buffer.delete(JOB, record)

    def insert_attempts(self, records: Sequence[AttemptRecord]) -> None:
        """Of different jobs, at once."""
        if records:
            self._insert(
                ATTEMPT, records, "one of these jobs has a live attempt already, or has had this number or epoch"
            )

    def insert_attempt(self, record: AttemptRecord) -> AttemptRecord:
        """Taken when its scope has a live attempt, or the job has had this number or epoch."""
        taken = (
            f"job {record.job_name} has a live attempt in scope {record.scope} already, "
            f"or has had attempt {record.number} or epoch {record.epoch}"
        )
        self._insert(ATTEMPT, [record], taken)
        return record

    def move_attempt(self, uid: str, to: AttemptPhase, **fields: Any) -> AttemptRecord:
        return self._move(ATTEMPT, uid, to, fields)

    def patch_attempt(self, uid: str, *, expect_revision: int | None = None, **fields: Any) -> AttemptRecord:
        return self._patch(ATTEMPT, uid, fields, expect_revision)


class WorkerWriter(Transaction):
    def insert_worker(self, record: WorkerRecord) -> WorkerRecord:
        """With its devices and ports. Taken, naming the holder, when one of them is not free."""
        self.insert_workers([record])
        return record

    def insert_workers(self, records: Sequence[WorkerRecord]) -> None:
        """A gang at once."""
        if not records:
            return
        taken = "a worker of this uid, or of this attempt, role and index, exists already"
        self._insert(WORKER, records, taken)
        self._allocate([(one.node, device, one.uid) for one in records for device in one.devices])
        self._reserve([(one.host, port, one.uid) for one in records for port in one.ports])

    def move_worker(self, uid: str, to: WorkerPhase, **fields: Any) -> WorkerRecord:
        """Devices and ports stay reserved until `release_worker`."""
        return self._move(WORKER, uid, to, fields)

    def patch_worker(self, uid: str, *, expect_revision: int | None = None, **fields: Any) -> WorkerRecord:
        return self._patch(WORKER, uid, fields, expect_revision)

    def replace_ports(self, worker_uid: str, ports: Sequence[int]) -> WorkerRecord:
        """Give up the worker's ports for others. Taken when one is not free on its host."""
        record = self._patch(WORKER, worker_uid, {"ports": tuple(ports)})
        self._connection.execute(delete(tables.ports).where(tables.ports.c.worker_uid == worker_uid))
        self._reserve([(record.host, port, worker_uid) for port in ports])
        return record

    def release_worker(self, uid: str) -> None:
        """Free its devices and ports. Repeating it changes nothing. IllegalMove while it may still have processes."""
        record = self.worker(uid)
        if record is None:
            raise NotFound(f"there is no Worker {uid}")
        if record.phase not in WORKER_TERMINAL:
            raise IllegalMove("Worker", uid, record.phase, "released")
        if record.released:
            return
        for table in (tables.allocations, tables.ports):
            self._connection.execute(delete(table).where(table.c.worker_uid == uid))
        self._patch(WORKER, uid, {"released": True})

    def _allocate(self, wanted: list[tuple[str, int, str]]) -> None:
        rows = [dict(zip(("node", "device", "worker_uid"), one, strict=True)) for one in sorted(wanted)]
        self._claim(tables.allocations, ("node", "device"), rows)

    def _reserve(self, wanted: list[tuple[str, int, str]]) -> None:
        rows = [dict(zip(("host", "port", "worker_uid"), one, strict=True)) for one in sorted(wanted)]
        self._claim(tables.ports, ("host", "port"), rows)

    def _claim(self, table: Any, keys: tuple[str, str], rows: list[dict[str, Any]]) -> None:
        """Insert all rows or say who holds the first that is not free."""
        if not rows:
            return
        inserted = insert_new(self._connection, table, keys, rows)
        if inserted == len(rows):
            return
        where = tuple_(*(table.c[key] for key in keys)).in_([tuple(row[key] for key in keys) for row in rows[:1000]])
        held = {(row[0], row[1]): row[2] for row in self._connection.execute(select(table).where(where))}
        for row in rows:
            owner = held.get((row[keys[0]], row[keys[1]]))
            if owner != row["worker_uid"]:
                self._spoil(Taken(f"{keys[1]} {row[keys[1]]} of {row[keys[0]]} belongs to worker {owner}"))
        self._spoil(Taken(f"a {keys[1]} was asked for twice"))


class ClusterWriter(Transaction):
    def put_node(self, record: NodeRecord) -> NodeRecord:
        """Insert or replace by name; uid and created_at stay as they were at first. IllegalMove when its phase may not
        follow the one that it has."""
        found = self.node(record.name)
        if found is None:
            self._insert(NODE, [record], f"node {record.name} was registered by someone else just now")
            return record
        if record.phase != found.phase and record.phase not in NODE_MOVES[found.phase]:
            raise IllegalMove("Node", record.name, found.phase, record.phase)
        return self._replace(NODE, replace(record, uid=found.uid, created_at=found.created_at))

    def hold_nodes(self, names: Iterable[str]) -> dict[str, NodeRecord]:
        """Those of these nodes that exist, by name, locked until the end."""
        return self._hold(NODE, names)

    def move_node(self, name: str, to: NodePhase, **fields: Any) -> NodeRecord:
        return self._move(NODE, name, to, fields)

    def patch_node(self, name: str, *, expect_revision: int | None = None, **fields: Any) -> NodeRecord:
        return self._patch(NODE, name, fields, expect_revision)

    def insert_repair(self, record: RepairRecord) -> RepairRecord:
        """Taken when its node is being repaired already."""
        self._insert(REPAIR, [record], f"node {record.node} is being repaired already")
        return record

    def move_repair(self, uid: str, to: RepairPhase, **fields: Any) -> RepairRecord:
        return self._move(REPAIR, uid, to, fields)

    def patch_repair(self, uid: str, *, expect_revision: int | None = None, **fields: Any) -> RepairRecord:
        return self._patch(REPAIR, uid, fields, expect_revision)

    def insert_measurements(self, records: Sequence[MeasurementRecord]) -> None:
        """Those of long ago go."""
        if records:
            old = tables.measurements.c.at < self._clock.now() - MEASUREMENT_SECONDS
            self._connection.execute(delete(tables.measurements).where(old))
            self._insert(MEASUREMENT, records, "a measurement of this uid exists already")

    def put_queue(self, record: QueueRecord) -> QueueRecord:
        """Insert or replace by name; uid and created_at stay as they were at first."""
        found = self.queue(record.name)
        if found is None:
            self._insert(QUEUE, [record], f"queue {record.name} was made by someone else just now")
            return record
        return self._replace(QUEUE, replace(record, uid=found.uid, created_at=found.created_at))

    def put_program(self, record: ProgramRecord) -> ProgramRecord:
        """Insert or replace by uid."""
        if self.program(record.uid) is None:
            self._insert(PROGRAM, [record], f"program {record.uid} was noted by someone else just now")
            return record
        return self._replace(PROGRAM, record)

    def put_policy(self, record: PolicyRecord) -> PolicyRecord:
        """Insert or replace a priority class, reservation or maintenance window by name; uid and created_at stay as
        they were at first."""
        kind = POLICIES[type(record)]
        found = self._one(kind, name=record.name)
        if found is None:
            self._insert(kind, [record], f"{kind.name} {record.name} was made by someone else just now")
            return record
        replaced: PolicyRecord = replace(record, uid=found.uid, created_at=found.created_at)
        self._replace(kind, replaced)
        return replaced

    def delete_policy(self, record: type[PolicyRecord], name: str) -> None:
        kind = POLICIES[record]
        found = self._one(kind, name=name)
        if found is None:
            raise NotFound(f"there is no {kind.name} {name}")
        self._connection.execute(delete(kind.table).where(kind.table.c.name == name))
        self._buffer.delete(kind, found)

    def delete_queue(self, name: str) -> None:
        record = self.queue(name)
        if record is None:
            raise NotFound(f"there is no Queue {name}")
        self._connection.execute(delete(tables.queues).where(tables.queues.c.name == name))
        self._buffer.delete(QUEUE, record)


class Writer(JobWriter, WorkerWriter, ClusterWriter, FactWriter, PromiseWriter, HoldWriter):
    """Everything that one transaction may do."""
