"""Reading: every method sees the same snapshot. Lists have a fixed order, so that equal states read equal."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Select, TextClause, bindparam, func, select

from controller.records import (
    AttemptRecord,
    CheckpointRecord,
    EventRecord,
    IncidentRecord,
    JobRecord,
    LeaseRecord,
    MeasurementRecord,
    NodeRecord,
    PolicyRecord,
    ProgramRecord,
    QueueRecord,
    RepairRecord,
    WorkerRecord,
)
from controller.state import selecting, tables
from controller.state.beside import checkpoint_directory
from controller.state.kinds import (
    ATTEMPT,
    CHECKPOINT,
    EVENT,
    INCIDENT,
    JOB,
    MEASUREMENT,
    NODE,
    POLICIES,
    PROGRAM,
    QUEUE,
    REPAIR,
    WORKER,
    Kind,
)
from controller.state.statements import batches, select_by
from controller.state.types import ClusterRecord, Remembered, SessionRecord, StrayRecord, TokenRecord
from muster.evidence import Evidence
from muster.protocol import ProgressPoint
from muster.states import JobPhase

R = TypeVar("R", bound=msgspec.Struct)
P = TypeVar("P", bound=PolicyRecord)

_evidence = msgspec.json.Decoder(Evidence)
_token = select(tables.tokens).where(tables.tokens.c.hash == bindparam("hash"))
_cluster = select(tables.cluster)
_newest = select(tables.revision.c.value)
_session = select(tables.sessions).where(tables.sessions.c.uid == bindparam("uid"))
_sessions = select(tables.sessions).order_by(tables.sessions.c.at)
_ports_of = select(tables.ports.c.host, tables.ports.c.port).where(
    tables.ports.c.host.in_(bindparam("hosts", expanding=True))
)
_live_names = select(tables.jobs.c.name, tables.jobs.c.phase).where(
    tables.LIVE_JOB,
    tables.jobs.c.namespace == bindparam("namespace"),
    tables.jobs.c.name.in_(bindparam("names", expanding=True)),
)
_remembered_all = select(tables.idempotency).where(tables.idempotency.c.key.in_(bindparam("keys", expanding=True)))
_remembered = select(tables.idempotency).where(tables.idempotency.c.key == bindparam("key"))


class Records:
    """How records come out of rows. `locking`: a single record that is read is locked until the transaction ends."""

    locking = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._dialect = connection.dialect.name

    def _one(self, kind: Kind[R], **by: Any) -> R | None:
        lock = self.locking and self._dialect == "postgresql"
        row = self._connection.execute(select_by(kind, *by, lock=lock), by).first()
        return None if row is None else kind.read(row)

    def _all(self, kind: Kind[R], order: tuple[str, ...], live: TextClause | None = None, **by: Any) -> list[R]:
        return self._read(kind, select_by(kind, *by, order=order, live=live), by)

    def _among(self, kind: Kind[R], column: str, values: Iterable[str], order: tuple[str, ...] = ()) -> list[R]:
        found: list[R] = []
        for batch in batches(values):
            found += self._read(kind, select_by(kind, column, order=order, many=True), {column: batch})
        return found

    def _read(self, kind: Kind[R], statement: Select[Any], by: dict[str, Any] | None = None) -> list[R]:
        return [kind.read(row) for row in self._connection.execute(statement, by or {})]


class Jobs(Records):
    """Jobs, attempts and workers."""

    def job(self, uid: str) -> JobRecord | None:
        return self._one(JOB, uid=uid)

    def job_named(self, namespace: str, name: str) -> JobRecord | None:
        """The live job of this name, else the newest finished one."""
        live = self._all(JOB, (), tables.LIVE_JOB, namespace=namespace, name=name)
        if live:
            return self.job(live[0].uid) if self.locking else live[0]
        found = self._all(JOB, ("created_at", "uid"), namespace=namespace, name=name)
        return found[-1] if found else None

    def jobs_with(self, uids: Iterable[str]) -> dict[str, JobRecord]:
        """Those of these jobs that exist, by uid, in one query."""
        return {one.uid: one for one in self._among(JOB, "uid", uids)}

    def live_names(self, namespace: str, names: Iterable[str]) -> dict[str, JobPhase]:
        """Those of these names that a live job has, with its phase."""
        found: dict[str, JobPhase] = {}
        for batch in batches(names):
            asked = {"namespace": namespace, "names": batch}
            found |= {row[0]: row[1] for row in self._connection.execute(_live_names, asked)}
        return found

    def jobs_in_directories(self, directories: Iterable[str]) -> dict[str, JobRecord]:
        """The live jobs whose checkpoints lie in these directories (normalised), in one query."""
        found: dict[str, JobRecord] = {}
        for batch in batches(directories):
            statement = select_by(JOB, "directory", live=tables.LIVE_JOB, many=True)
            for record in self._read(JOB, statement, {"directory": batch}):
                found[checkpoint_directory(record.spec) or ""] = record
        return found

    def jobs(
        self,
        namespace: str | None = None,
        *,
        live_only: bool = False,
        labels: dict[str, str] | None = None,
        phases: Collection[JobPhase] | None = None,
        queue: str | None = None,
        name: str | None = None,
        uid: str | None = None,
        number: int | None = None,
        after: selecting.Place | None = None,
        limit: int | None = None,
    ) -> list[JobRecord]:
        """By (namespace, name, uid); `after` is this triple of the last job of the page before."""
        wanted = selecting.Wanted(
            namespace=namespace,
            name=name,
            uid=uid,
            number=number,
            live_only=live_only,
            labels=labels or {},
            phases=None if phases is None else tuple(phases),
            queue=queue,
            after=after,
            limit=limit,
        )
        return self._read(JOB, selecting.jobs(wanted))

    def waits(self) -> bool:
        """Whether any job waits to start."""
        waiting = tables.jobs.c.phase.in_(sorted((JobPhase.QUEUED, JobPhase.RECOVERING)))
        return self._connection.execute(select(tables.jobs.c.uid).where(waiting).limit(1)).first() is not None

    def succeeded(self, limit: int) -> list[JobRecord]:
        """The newest jobs that ended well, the newest first."""
        ended = tables.jobs.c.finished_at
        statement = select(*JOB.columns).where(tables.jobs.c.phase == JobPhase.SUCCEEDED)
        return self._read(JOB, statement.order_by(ended.desc(), tables.jobs.c.uid).limit(limit))

    def claimants(self) -> list[JobRecord]:
        """Live jobs that hold a claim, by uid."""
        jobs = tables.jobs
        statement = select(*JOB.columns).where(tables.LIVE_JOB, jobs.c.claim.is_not(None)).order_by(jobs.c.uid)
        return self._read(JOB, statement)

    def phases_of_elements(self, parent: str) -> dict[JobPhase, int]:
        """How many elements of an array there are in each phase."""
        jobs = tables.jobs
        statement = select(jobs.c.phase, func.count()).where(jobs.c.parent == parent).group_by(jobs.c.phase)
        return {phase: int(count) for phase, count in self._connection.execute(statement)}

    def live_elements(self, parent: str) -> list[JobRecord]:
        """The elements of an array that are not finished, by name."""
        return self._all(JOB, ("name",), tables.LIVE_JOB, parent=parent)

    def elements(self, parent: str) -> list[JobRecord]:
        """All elements of an array, by name."""
        return self._all(JOB, ("name",), parent=parent)

    def attempt(self, uid: str) -> AttemptRecord | None:
        return self._one(ATTEMPT, uid=uid)

    def attempts(self, job_uid: str) -> list[AttemptRecord]:
        """Oldest first."""
        return self._all(ATTEMPT, ("epoch", "uid"), job_uid=job_uid)

    def attempts_of(self, uids: Iterable[str]) -> dict[str, AttemptRecord]:
        """Those of these attempts that exist, by uid, in one query."""
        return {one.uid: one for one in self._among(ATTEMPT, "uid", uids)}

    def attempts_by_job(self, job_uids: Iterable[str]) -> dict[str, list[AttemptRecord]]:
        """All attempts of these jobs, each list oldest first, in one query."""
        found: dict[str, list[AttemptRecord]] = {}
        for one in self._among(ATTEMPT, "job_uid", job_uids, ("job_uid", "epoch", "uid")):
            found.setdefault(one.job_uid, []).append(one)
        return found

    def live_attempts(self) -> list[AttemptRecord]:
        return self._all(ATTEMPT, ("job_uid", "epoch"), tables.LIVE_ATTEMPT)

    def worker(self, uid: str) -> WorkerRecord | None:
        return self._one(WORKER, uid=uid)

    def workers(self, attempt_uid: str) -> list[WorkerRecord]:
        """By role and index."""
        return self._all(WORKER, ("role", "index"), attempt_uid=attempt_uid)

    def workers_of(self, attempt_uids: Iterable[str]) -> dict[str, list[WorkerRecord]]:
        """Workers by attempt uid, each list by role and index, in one query."""
        found: dict[str, list[WorkerRecord]] = {}
        for worker in self._among(WORKER, "attempt_uid", attempt_uids, ("attempt_uid", "role", "index")):
            found.setdefault(worker.attempt_uid, []).append(worker)
        return found

    def workers_of_node(self, node: str, live_only: bool = True) -> list[WorkerRecord]:
        """By uid. `live_only` leaves out those that are Exited or Lost."""
        return self._all(WORKER, ("uid",), tables.LIVE_WORKER if live_only else None, node=node)

    def live_workers(self) -> list[WorkerRecord]:
        return self._all(WORKER, ("uid",), tables.LIVE_WORKER)

    def devices_in_use(self, node: str | None = None) -> dict[tuple[str, int], str]:
        """(node, device) to the uid of the worker that holds it."""
        held = tables.allocations
        statement = select(held.c.node, held.c.device, held.c.worker_uid)
        if node is not None:
            statement = statement.where(held.c.node == node)
        return {(row[0], row[1]): row[2] for row in self._connection.execute(statement)}

    def ports_by_host(self, hosts: Iterable[str]) -> dict[str, set[int]]:
        """The reserved ports of each of these hosts, in one query."""
        found: dict[str, set[int]] = {host: set() for host in hosts}
        for batch in batches(found):
            for host, port in self._connection.execute(_ports_of, {"hosts": batch}):
                found[host].add(port)
        return found

    def ports_in_use(self, host: str | None = None) -> set[tuple[str, int]]:
        """(host, port) of every reserved port."""
        statement = select(tables.ports.c.host, tables.ports.c.port)
        if host is not None:
            statement = statement.where(tables.ports.c.host == host)
        return {(row[0], row[1]) for row in self._connection.execute(statement)}


class Cluster(Records):
    """Nodes, leases, queues and tokens."""

    def nodes(self) -> list[NodeRecord]:
        return self._all(NODE, ("name",))

    def node(self, name: str) -> NodeRecord | None:
        return self._one(NODE, name=name)

    def repair(self, uid: str) -> RepairRecord | None:
        return self._one(REPAIR, uid=uid)

    def repairs(self, node: str | None = None, *, live_only: bool = False) -> list[RepairRecord]:
        """Oldest first."""
        by = {} if node is None else {"node": node}
        return self._all(REPAIR, ("created_at", "uid"), tables.LIVE_REPAIR if live_only else None, **by)

    def measurements(
        self, node: str | None = None, *, check: str | None = None, since: float = 0.0
    ) -> list[MeasurementRecord]:
        """Oldest first."""
        table = tables.measurements
        statement = select(*MEASUREMENT.columns).where(table.c.at >= since).order_by(table.c.at, table.c.uid)
        if node is not None:
            statement = statement.where(table.c.node == node)
        if check is not None:
            statement = statement.where(table.c.check == check)
        return self._read(MEASUREMENT, statement)

    def leases(self) -> list[LeaseRecord]:
        rows = self._connection.execute(select(tables.leases).order_by(tables.leases.c.node))
        return [LeaseRecord(*row) for row in rows]

    def queues(self) -> list[QueueRecord]:
        return self._all(QUEUE, ("name",))

    def queue(self, name: str) -> QueueRecord | None:
        return self._one(QUEUE, name=name)

    def cluster(self) -> ClusterRecord:
        """Whose database this is. Never locked: every agent's hello reads it."""
        return ClusterRecord(**self._connection.execute(_cluster).one()._mapping)

    def newest_revision(self) -> int:
        """As it is committed; also for a writer, which has taken none yet."""
        return int(self._connection.execute(_newest).scalar_one())

    def strays(self, node: str | None = None) -> list[StrayRecord]:
        """By node, attempt and uid: of one node or of all."""
        table = tables.strays
        statement = select(table).order_by(table.c.node, table.c.attempt_uid, table.c.worker_uid)
        if node is not None:
            statement = statement.where(table.c.node == node)
        return [StrayRecord(**row._mapping) for row in self._connection.execute(statement)]

    def program(self, uid: str) -> ProgramRecord | None:
        return self._one(PROGRAM, uid=uid)

    def programs(self) -> list[ProgramRecord]:
        return self._all(PROGRAM, ("uid",))

    def policies(self, record: type[P]) -> list[P]:
        """All priority classes, reservations or maintenance windows, by name."""
        return self._all(POLICIES[record], ("name",))

    def policy(self, record: type[P], name: str) -> P | None:
        return self._one(POLICIES[record], name=name)

    def token(self, hash: str) -> TokenRecord | None:  # noqa: A002
        row = self._connection.execute(_token, {"hash": hash}).first()
        return None if row is None else TokenRecord(**row._mapping)

    def tokens(self) -> list[TokenRecord]:
        """The oldest first."""
        found = self._connection.execute(
            select(tables.tokens).order_by(tables.tokens.c.created_at, tables.tokens.c.hash)
        )
        return [TokenRecord(**row._mapping) for row in found]

    def sessions(self) -> list[SessionRecord]:
        """All that are open or wait for their agent, oldest first. They are not in the change log."""
        return [SessionRecord(**row._mapping) for row in self._connection.execute(_sessions)]

    def session(self, uid: str) -> SessionRecord | None:
        row = self._connection.execute(_session, {"uid": uid}).first()
        return None if row is None else SessionRecord(**row._mapping)

    def all_remembered(self, keys: Iterable[str]) -> dict[str, Remembered]:
        """Those of these Idempotency-Keys that were answered, in one query."""
        found: dict[str, Remembered] = {}
        for batch in batches(keys):
            rows = self._connection.execute(_remembered_all, {"keys": batch})
            found |= {row.key: Remembered(**row._mapping) for row in rows}
        return found

    def remembered(self, key: str) -> Remembered | None:
        row = self._connection.execute(_remembered, {"key": key}).first()
        return None if row is None else Remembered(**row._mapping)


class Facts(Records):
    """What happened: checkpoints, incidents, events, evidence, progress."""

    def checkpoints(self, job_uid: str) -> list[CheckpointRecord]:
        """By step."""
        return self._all(CHECKPOINT, ("step", "path"), job_uid=job_uid)

    def incidents(
        self, namespace: str | None = None, job_uid: str | None = None, since: float | None = None
    ) -> list[IncidentRecord]:
        """Oldest first; those that were opened at `since` or later."""
        if since is not None:
            opened = tables.incidents.c.opened_at
            statement = select(*INCIDENT.columns).where(opened >= since).order_by(opened, tables.incidents.c.uid)
            return self._read(INCIDENT, statement)
        by: dict[str, Any] = {"namespace": namespace, "job_uid": job_uid}
        given = {name: value for name, value in by.items() if value is not None}
        return self._all(INCIDENT, ("opened_at", "uid"), **given)

    def events(
        self, namespace: str | None = None, object_uid: str | None = None, after: int | None = None, limit: int = 1000
    ) -> list[EventRecord]:
        """By revision: the first `limit` after the revision `after`; without `after` the newest `limit`."""
        events = tables.events
        statement = select(*EVENT.columns).limit(limit)
        if namespace is not None:
            statement = statement.where(events.c.namespace == namespace)
        if object_uid is not None:
            statement = statement.where(events.c.object_uid == object_uid)
        if after is not None:
            return self._read(EVENT, statement.where(events.c.revision > after).order_by(events.c.revision))
        return self._read(EVENT, statement.order_by(events.c.revision.desc()))[::-1]

    def evidence(self, attempt_uid: str) -> list[Evidence]:
        """Earliest first."""
        table = tables.evidence
        statement = select(table.c.body).where(table.c.attempt_uid == attempt_uid).order_by(table.c.at, table.c.digest)
        return [_evidence.decode(body) for body in self._connection.execute(statement).scalars()]

    def progress(self, attempt_uid: str, limit: int = 1000) -> list[ProgressPoint]:
        """The newest `limit` points, oldest first."""
        table = tables.progress
        statement = (
            select(table.c.step, table.c.at, table.c.rank, table.c.loss, table.c.phase, table.c.seconds)
            .where(table.c.attempt_uid == attempt_uid)
            .order_by(table.c.at.desc(), table.c.step.desc(), table.c.rank.desc(), table.c.phase.desc())
            .limit(limit)
        )
        rows = self._connection.execute(statement).all()
        return [_point(row) for row in reversed(rows)]


def _point(row: Sequence[Any]) -> ProgressPoint:
    step, at, rank, loss, phase, seconds = row
    return ProgressPoint(step=step, at=at, rank=None if rank < 0 else rank, loss=loss, phase=phase, seconds=seconds)
