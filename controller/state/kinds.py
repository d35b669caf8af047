"""The kinds of the change log: which record, which table, which key."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec
from sqlalchemy import Column, Table

from controller.records import (
    AttemptRecord,
    CheckpointRecord,
    EventRecord,
    IncidentRecord,
    JobRecord,
    MaintenanceWindowRecord,
    MeasurementRecord,
    NodeRecord,
    PriorityClassRecord,
    ProgramRecord,
    QueueRecord,
    Record,
    RepairRecord,
    ReservationRecord,
    WorkerRecord,
)
from controller.state import tables
from muster import states

R = TypeVar("R", bound=msgspec.Struct)


@dataclass(frozen=True, eq=False)
class Kind(Generic[R]):
    """`key` is the column by which callers name a row; `label` is what people call the thing."""

    name: str
    record: type[R]
    table: Table
    label: Callable[[R], str]
    key: str = "uid"
    moves: dict[Any, frozenset[Any]] | None = None

    @cached_property
    def fields(self) -> tuple[str, ...]:
        return self.record.__struct_fields__

    @cached_property
    def columns(self) -> tuple[Column[Any], ...]:
        return tuple(self.table.c[field] for field in self.fields)

    @cached_property
    def phases(self) -> type[StrEnum]:
        return type(next(iter(self.moves or {})))

    def read(self, row: Sequence[Any]) -> R:
        return self.record(**dict(zip(self.fields, row, strict=True)))

    def values(self, record: R) -> dict[str, Any]:
        return {field: getattr(record, field) for field in self.fields}


JOB = Kind("Job", JobRecord, tables.jobs, lambda job: job.name, moves=states.JOB_MOVES)
ATTEMPT = Kind("Attempt", AttemptRecord, tables.attempts, lambda one: one.job_name, moves=states.ATTEMPT_MOVES)
WORKER = Kind("Worker", WorkerRecord, tables.workers, lambda one: f"{one.role}-{one.index}", moves=states.WORKER_MOVES)
NODE = Kind("Node", NodeRecord, tables.nodes, lambda node: node.name, key="name", moves=states.NODE_MOVES)
QUEUE = Kind("Queue", QueueRecord, tables.queues, lambda queue: queue.name, key="name")
PROGRAM = Kind("Program", ProgramRecord, tables.programs, lambda one: one.name)
PRIORITY_CLASS = Kind("PriorityClass", PriorityClassRecord, tables.priority_classes, lambda one: one.name, key="name")
RESERVATION = Kind("Reservation", ReservationRecord, tables.reservations, lambda one: one.name, key="name")
MAINTENANCE = Kind(
    "MaintenanceWindow", MaintenanceWindowRecord, tables.maintenance_windows, lambda one: one.name, key="name"
)
POLICIES: dict[type, Kind[Any]] = {
    PriorityClassRecord: PRIORITY_CLASS,
    ReservationRecord: RESERVATION,
    MaintenanceWindowRecord: MAINTENANCE,
}
"""What operators declare."""
CHECKPOINT = Kind("Checkpoint", CheckpointRecord, tables.checkpoints, lambda one: one.path)
INCIDENT = Kind("Incident", IncidentRecord, tables.incidents, lambda one: one.job_name)
EVENT = Kind("Event", EventRecord, tables.events, lambda event: event.name)
REPAIR = Kind("Repair", RepairRecord, tables.repairs, lambda one: one.node, moves=states.REPAIR_MOVES)
MEASUREMENT = Kind("Measurement", MeasurementRecord, tables.measurements, lambda one: one.node)

_ALL: tuple[Kind[Any], ...] = (
    *(JOB, ATTEMPT, WORKER, NODE, QUEUE, PROGRAM, CHECKPOINT, INCIDENT, EVENT, REPAIR, MEASUREMENT),
    *POLICIES.values(),
)
KINDS: dict[str, Kind[Any]] = {kind.name: kind for kind in _ALL}


def namespace_of(record: Record) -> str:
    """Empty for what belongs to the whole cluster."""
    return getattr(record, "namespace", "")
