"""The tables: one schema for SQLite and PostgreSQL.

A field added to a record is a column here by itself and needs a migration. Unique rows are the mutual exclusion:
one live job a name and a checkpoint directory, one live attempt a restart scope, one worker a device, one worker a
port.
"""

from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    TextClause,
    UniqueConstraint,
    text,
)

from controller.records import (
    AttemptRecord,
    CheckpointRecord,
    EventRecord,
    IncidentRecord,
    JobRecord,
    LeaseRecord,
    MaintenanceWindowRecord,
    MeasurementRecord,
    NodeRecord,
    PriorityClassRecord,
    ProgramRecord,
    QueueRecord,
    ReceiptRecord,
    RepairRecord,
    ReservationRecord,
    WorkerRecord,
)
from controller.state.columns import Words, columns_of
from controller.state.types import (
    AuditEntry,
    ClusterRecord,
    OutboxItem,
    Remembered,
    SessionRecord,
    StrayRecord,
    TokenRecord,
)
from muster.states import JOB_TERMINAL, REPAIR_TERMINAL, WORKER_TERMINAL, AttemptPhase

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _phase(operator: str, *phases: str) -> TextClause:
    """Literal text, never parameters: only so does PostgreSQL see that a partial index serves a query."""
    return text(f"phase {operator} ({', '.join(repr(str(phase)) for phase in sorted(phases))})")


LIVE_JOB, FINISHED_JOB = _phase("NOT IN", *JOB_TERMINAL), _phase("IN", *JOB_TERMINAL)
LIVE_WORKER, FINISHED_WORKER = _phase("NOT IN", *WORKER_TERMINAL), _phase("IN", *WORKER_TERMINAL)
LIVE_ATTEMPT = _phase("NOT IN", AttemptPhase.ENDED)
LIVE_REPAIR = _phase("NOT IN", *REPAIR_TERMINAL)


def _of(record: type[msgspec.Struct], name: str, *more: Any, key: tuple[str, ...] = ("uid",)) -> Table:
    return Table(name, metadata, *columns_of(record, key=key), *more)


def _live_index(name: str, *columns: str, where: TextClause, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


def _owned(*columns: str, by: str) -> ForeignKeyConstraint:
    """Rows that go when their owner is deleted."""
    return ForeignKeyConstraint(columns, [by], ondelete="CASCADE")


jobs = _of(
    JobRecord,
    "jobs",
    Column("queue", Words, nullable=False),  # out of the spec, to select by
    Column("stock_epoch", BigInteger, nullable=False, server_default="0"),  # newest attempt that reported checkpoints
    Column("directory", Words),  # of its checkpoints, normalised; None: it has none, or one to each worker
    _live_index("uq_jobs_live_name", "namespace", "name", where=LIVE_JOB, unique=True),
    _live_index("uq_jobs_live_directory", "directory", where=LIVE_JOB, unique=True),
    Index(None, "namespace", "name", "uid"),
    Index(None, "phase", "namespace", "name", "uid"),
    Index(None, "queue", "namespace", "name", "uid"),
    Index(None, "parent"),
    Index(None, "number"),
)

job_labels = Table(
    "job_labels",  # kept by triggers on `jobs` (migration 0005), in the order of pages
    metadata,
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("uid", Text, ForeignKey("jobs.uid", ondelete="CASCADE"), nullable=False, index=True),
    PrimaryKeyConstraint("key", "value", "namespace", "name", "uid"),
)

attempts = _of(
    AttemptRecord,
    "attempts",
    _owned("job_uid", by="jobs.uid"),
    _live_index("uq_attempts_live_scope", "job_uid", "scope", where=LIVE_ATTEMPT, unique=True),
    UniqueConstraint("job_uid", "scope", "number"),
    UniqueConstraint("job_uid", "epoch"),
)

workers = _of(
    WorkerRecord,
    "workers",
    _owned("attempt_uid", by="attempts.uid"),
    UniqueConstraint("attempt_uid", "role", "index"),
    _live_index("ix_workers_live_node", "node", where=LIVE_WORKER),
    Index(None, "node"),
)

nodes = _of(NodeRecord, "nodes", UniqueConstraint("uid"), key=("name",))
programs = _of(ProgramRecord, "programs")
queues = _of(QueueRecord, "queues", UniqueConstraint("uid"), key=("name",))
priority_classes = _of(PriorityClassRecord, "priority_classes", UniqueConstraint("uid"), key=("name",))
reservations = _of(ReservationRecord, "reservations", UniqueConstraint("uid"), key=("name",))
maintenance_windows = _of(MaintenanceWindowRecord, "maintenance_windows", UniqueConstraint("uid"), key=("name",))

checkpoints = _of(
    CheckpointRecord,
    "checkpoints",
    _owned("job_uid", by="jobs.uid"),
    Index(None, "job_uid"),
)

incidents = _of(
    IncidentRecord,
    "incidents",
    _owned("job_uid", by="jobs.uid"),
    Index(None, "job_uid"),
    Index(None, "namespace", "opened_at"),
)

events = _of(
    EventRecord,
    "events",
    UniqueConstraint("revision"),
    Index(None, "object_uid", "revision"),
    Index(None, "namespace", "revision"),
)

repairs = _of(
    RepairRecord,
    "repairs",
    _live_index("uq_repairs_live_node", "node", where=LIVE_REPAIR, unique=True),
    Index(None, "node", "created_at"),
)

measurements = _of(
    MeasurementRecord,
    "measurements",
    Index(None, "node", "at"),
    Index(None, "check"),
)

leases = _of(LeaseRecord, "leases", key=("node",))

allocations = Table(
    "allocations",
    metadata,
    Column("node", Text, nullable=False),
    Column("device", BigInteger, nullable=False),
    Column("worker_uid", Text, ForeignKey("workers.uid", ondelete="CASCADE"), nullable=False, index=True),
    PrimaryKeyConstraint("node", "device"),
)

ports = Table(
    "ports",
    metadata,
    Column("host", Text, nullable=False),
    Column("port", BigInteger, nullable=False),
    Column("worker_uid", Text, ForeignKey("workers.uid", ondelete="CASCADE"), nullable=False, index=True),
    PrimaryKeyConstraint("host", "port"),
)

evidence = Table(
    "evidence",
    metadata,
    Column("attempt_uid", Text, ForeignKey("attempts.uid", ondelete="CASCADE"), nullable=False),
    Column("digest", Text, nullable=False),  # a report that is repeated adds nothing
    Column("at", Double, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("attempt_uid", "digest"),
)

progress = Table(
    "progress",
    metadata,
    Column("attempt_uid", Text, ForeignKey("attempts.uid", ondelete="CASCADE"), nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("rank", BigInteger, nullable=False),  # -1: no single rank
    Column("phase", Words, nullable=False),
    Column("at", Double, nullable=False),
    Column("loss", Double),
    Column("seconds", Double),
    PrimaryKeyConstraint("attempt_uid", "step", "rank", "phase"),
)

tokens = _of(TokenRecord, "tokens", key=("hash",))
cluster = _of(ClusterRecord, "cluster", CheckConstraint("id = 1", name="one_row"), key=("id",))
strays = _of(StrayRecord, "strays", Index(None, "node"), key=("worker_uid",))
sessions = _of(SessionRecord, "sessions")
idempotency = _of(Remembered, "idempotency", Index(None, "at"), key=("key",))
outbox = _of(OutboxItem, "outbox", UniqueConstraint("key"), Index(None, "state", "next_at"), key=("id",))

receipts = _of(ReceiptRecord, "receipts", Index(None, "finished_at"), Index(None, "namespace", "finished_at"))
audit = _of(AuditEntry, "audit", Index(None, "namespace", "uid"))

forecasts = Table(
    "forecasts",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("maker", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("made_at", Double, nullable=False),
    Column("checked_at", Double, nullable=False),  # when it was found to hold still
    Column("seconds", Double, nullable=False),  # that its making took
    Column("body", Text, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)

predictions = Table(
    "predictions",
    metadata,
    Column("job_uid", Text, nullable=False),  # no foreign key: what was predicted counts after the job is gone
    Column("made_at", Double, nullable=False),
    Column("queue", Text, nullable=False),
    Column("predicted", Double, nullable=False),
    Column("basis", Text, nullable=False),
    Column("started_at", Double),
    PrimaryKeyConstraint("job_uid", "made_at"),
    Index(None, "started_at"),
)

revision = Table(
    "revision",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("value", BigInteger, nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)

changes = Table(
    "changes",
    metadata,
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("uid", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("name", Words, nullable=False),
    Column("op", Text, nullable=False),
    Column("at", Double, nullable=False),
)

leader = Table(
    "leader",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", Text, nullable=False),  # empty: nobody, free to take at once
    Column("renewals", BigInteger, nullable=False),
    Column("at", Double, nullable=False),  # of the last renewal, by its holder's clock
    CheckConstraint("id = 1", name="one_row"),
)
