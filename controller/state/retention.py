"""How long what finished jobs left is kept. What belongs to a live job is never touched.

The limits are of each namespace by itself, so that one that talks much costs no other its history. The change log is
one for all, without a gap, so it is cut at one place for all.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, Connection, Table, delete, func, select

from controller.state import tables
from controller.state.statements import batches
from muster.states import JOB_TERMINAL

DAY: Final = 24 * 3600.0
CHANGE_BYTES: Final = 200
"""What one entry of the change log takes, with its index, about."""

EVENT_BYTES: Final = 200
"""What an event takes beside its message, about."""


class Keep(Struct, frozen=True, forbid_unknown_fields=True):
    """Whichever limit is met first: age in days, size in bytes."""

    days: float
    bytes: int

    def __post_init__(self) -> None:
        if not self.days > 0 or self.bytes < 1:
            raise ValueError("days and bytes must be above 0")


class Retention(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of every namespace, and those of some (`namespaces`) where they differ. `logs` are the copies in the
    log store; `changes` has no limit of a single namespace."""

    events: Keep = Keep(14, 64 * 2**20)
    evidence: Keep = Keep(30, 256 * 2**20)
    logs: Keep = Keep(30, 10 * 2**30)
    audit: Keep = Keep(365, 256 * 2**20)
    changes: Keep = Keep(7, 20 * 2**20)
    namespaces: dict[str, dict[str, Keep]] = {}

    def __post_init__(self) -> None:
        known = {"events", "evidence", "logs", "audit"}
        for name, limits in self.namespaces.items():
            if unknown := sorted(set(limits) - known):
                raise ValueError(f"namespaces.{name}: no such limit: {', '.join(unknown)} (known: {sorted(known)})")

    def of(self, what: str, namespace: str) -> Keep:
        """`what` is events, evidence, logs or audit."""
        default: Keep = getattr(self, what)
        return self.namespaces.get(namespace, {}).get(what, default)


def parse(text: str | None) -> Retention:
    """MUSTER_RETENTION, e.g. `{"audit": {"days": 730, "bytes": 1000000000}}`. Raises ValueError."""
    try:
        return msgspec.json.decode(text, type=Retention) if text else Retention()
    except msgspec.MsgspecError as error:
        raise ValueError(f"MUSTER_RETENTION: {error}") from None


class Held(Struct, frozen=True):
    """Bytes that a finished job holds, and when it finished."""

    namespace: str
    uid: str
    finished_at: float
    size: int


def beyond(held: Iterable[Held], limits: Mapping[str, Keep], now: float) -> list[str]:
    """Jobs whose share goes: those that finished too long ago, and in each namespace, from the newest back, all from
    the one on with which it would hold more than it may."""
    sums: dict[str, int] = {}
    going = []
    for one in sorted(held, key=lambda one: (-one.finished_at, one.uid)):
        sums[one.namespace] = sums.get(one.namespace, 0) + one.size
        keep = limits[one.namespace]
        if one.finished_at < now - keep.days * DAY or sums[one.namespace] > keep.bytes:
            going.append(one.uid)
    return going


_jobs, _events, _evidence, _audit = tables.jobs.c, tables.events.c, tables.evidence.c, tables.audit.c
_live = select(_jobs.uid).where(tables.LIVE_JOB)
_held = (
    select(_jobs.namespace, _jobs.uid, _jobs.finished_at, func.sum(_evidence.size))
    .join(tables.attempts, tables.attempts.c.job_uid == _jobs.uid)
    .join(tables.evidence, _evidence.attempt_uid == tables.attempts.c.uid)
    .where(_jobs.phase.in_(sorted(JOB_TERMINAL)))
    .group_by(_jobs.namespace, _jobs.uid, _jobs.finished_at)
)


def prune_changes(connection: Connection, keep: Keep, now: float) -> None:
    """All up to one revision; the newest change always stays."""
    log = tables.changes.c
    newest = connection.execute(select(func.max(log.revision))).scalar() or 0
    old = select(func.max(log.revision)).where(log.at < now - keep.days * DAY)
    cut = max(connection.execute(old).scalar() or 0, newest - max(1, keep.bytes // CHANGE_BYTES))
    connection.execute(delete(tables.changes).where(log.revision <= min(cut, newest - 1)))


def prune_events(connection: Connection, retention: Retention, now: float) -> None:
    """The oldest first, save those of live jobs."""
    size, others = func.length(_events.message) + EVENT_BYTES, ~_events.object_uid.in_(_live)
    _prune(connection, tables.events, _events.revision, size, others, "events", retention, now)


def prune_audit(connection: Connection, retention: Retention, now: float) -> None:
    _prune(connection, tables.audit, _audit.uid, _audit.size, None, "audit", retention, now)


def prune_evidence(connection: Connection, retention: Retention, now: float) -> None:
    """Evidence of finished jobs. Verdicts and incidents stay."""
    held = [Held(*row) for row in connection.execute(_held)]
    limits = {one.namespace: retention.of("evidence", one.namespace) for one in held}
    for uids in batches(beyond(held, limits, now)):
        attempts = select(tables.attempts.c.uid).where(tables.attempts.c.job_uid.in_(uids))
        connection.execute(delete(tables.evidence).where(_evidence.attempt_uid.in_(attempts)))


def _prune(
    connection: Connection,
    table: Table,
    order: ColumnElement[Any],
    size: ColumnElement[Any],
    may_go: ColumnElement[bool] | None,
    what: str,
    retention: Retention,
    now: float,
) -> None:
    """Rows of each namespace beyond its age or its bytes, counted from the newest back; `order` grows with time."""
    sums = connection.execute(select(table.c.namespace, func.sum(size)).group_by(table.c.namespace)).all()
    for namespace, held in sums:
        keep = retention.of(what, namespace)
        gone = table.c.at < now - keep.days * DAY
        if held > keep.bytes:
            so_far = func.sum(size).over(order_by=order.desc()).label("so_far")
            running = select(order.label("place"), so_far).where(table.c.namespace == namespace).subquery()
            last = select(func.max(running.c.place)).where(running.c.so_far > keep.bytes).scalar_subquery()
            gone = gone | (order <= last)
        mine = delete(table).where(table.c.namespace == namespace, gone)
        connection.execute(mine if may_go is None else mine.where(may_go))
