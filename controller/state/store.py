"""The store: transactions over the tables. Nothing else in Muster speaks SQL."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, RootTransaction, delete, exc, func, select

from controller.state import outbox, retention, schema, tables, trail
from controller.state.changes import Reader
from controller.state.engine import (
    BUSY_SECONDS,
    for_reading,
    for_writing,
    make_engine,
    meaning,
    prepare_sqlite,
    translated,
)
from controller.state.errors import Contended, LeadershipLost, StoreUnavailable
from controller.state.forecasts import Forecasts
from controller.state.limits import OUTBOX_SECONDS, REMEMBERED_SECONDS, SESSION_SECONDS
from controller.state.retention import Retention
from controller.state.types import Actor, AuditEntry, LeaderLease, OutboxItem
from controller.state.writing import Writer
from muster.clock import Clock

T = TypeVar("T")

_leader = select(tables.leader.c.holder, tables.leader.c.epoch).with_for_update(read=True)
IDLE: Final = "10s"
"""How long a leader's transaction may stand still on PostgreSQL: one that was stopped in the middle of a transaction
holds the lock on the leader's row, and nobody could take over before."""

TRIES: Final = 8
"""How often `transact` runs a transaction that others are in the way of."""


def open_store(
    url: str, *, clock: Clock, new_id: Callable[[], str], sleep: Callable[[float], None] = time.sleep
) -> "Store":
    """A store on `sqlite:///FILE` or `postgresql://...`. Connects only when first used (SQLite: makes the file).
    `new_id` gives unique ids. Raises StoreError for a URL or place that cannot work."""
    with translated():
        engine = make_engine(url)
        if engine.dialect.name == "sqlite":
            prepare_sqlite(engine, sleep)
    return Store(engine, clock=clock, new_id=new_id, sleep=sleep)


class Store:
    """Safe to share between threads. Every method may raise StoreUnavailable."""

    def __init__(
        self, engine: Engine, *, clock: Clock, new_id: Callable[[], str], sleep: Callable[[float], None]
    ) -> None:
        self._engine, self._clock, self._new_id, self._sleep = engine, clock, new_id, sleep
        self._reading, self._writing = for_reading(engine), for_writing(engine)
        # SQLite lets others wait by polling, which starves some; threads of one process wait in line instead.
        self._turn = threading.Lock() if engine.dialect.name == "sqlite" else None
        self._inside = threading.local()
        self.forecasts = Forecasts(self._reading.connect, self._plain)

    def migrate(self) -> None:
        """Bring the database to this program's schema; safe when several processes do so at once."""
        schema.migrate(self._engine)

    def close(self) -> None:
        self._engine.dispose()

    def time(self) -> float | None:
        """UTC seconds of the database's machine; None where that is this one (SQLite)."""
        if self._engine.dialect.name != "postgresql":
            return None
        with translated(), self._reading.connect() as connection:
            asked = "SELECT extract(epoch FROM clock_timestamp())::double precision"
            return float(connection.exec_driver_sql(asked).scalar_one())

    @contextmanager
    def read(self) -> Iterator[Reader]:
        """One consistent snapshot, however long it is read."""
        with translated(), self._reading.connect() as connection:
            yield Reader(connection)

    @contextmanager
    def write(self, guard: LeaderLease | None = None) -> Iterator[Writer]:
        """One transaction: commits at the end of the block, rolls back whole when it raises. With `guard` it raises
        LeadershipLost, and nothing is written, unless that lease is still the leader's. Never inside another."""
        with self._my_turn(), translated(), self._writing.connect() as connection:
            transaction = connection.begin()
            if guard is not None:
                _check_leader(connection, guard)
            writer = Writer(connection, self._clock, self._new_id)
            yield writer
            writer._finish()
            _commit(connection, transaction)
            writer._committed()

    def transact(self, fn: Callable[[Writer], T], guard: LeaderLease | None = None) -> T:
        """`fn` in a transaction of its own, again with growing pauses when others are in the way; `fn` must have no
        other effects. Raises what `fn` raises, and Contended when it is still no use after several tries."""
        for attempt in range(TRIES):
            try:
                with self.write(guard) as writer:
                    return fn(writer)
            except Contended:
                if attempt == TRIES - 1:
                    raise
                self._sleep(min(0.01 * 2**attempt, 0.5))
        raise AssertionError("unreachable")

    def outbox_due(self, now: float, limit: int = 100) -> list[OutboxItem]:
        """What is to be done now, the longest due first. An item is given again until it is done, failed or
        postponed."""
        with translated(), self._reading.connect() as connection:
            return outbox.due(connection, now, limit)

    def outbox_item(self, id: str) -> OutboxItem | None:  # noqa: A002
        with translated(), self._reading.connect() as connection:
            return outbox.item(connection, id)

    def outbox_done(self, id: str) -> None:  # noqa: A002
        """Repeating it, or doing so to a dead or unknown item, changes nothing."""
        with self._plain() as connection:
            outbox.done(connection, id, self._clock.now())

    def outbox_failed(self, id: str, error: str, next_at: float) -> bool:  # noqa: A002
        """One more failure; due again at `next_at`. True when it was the last: the item is dead."""
        with self._plain() as connection:
            return outbox.failed(connection, id, error, next_at, self._clock.now())

    def outbox_postpone(self, id: str, next_at: float) -> None:  # noqa: A002
        """Due again at `next_at` unless done before: for who has handed it on and waits. No failure."""
        with self._plain() as connection:
            outbox.later(connection, id, next_at)

    def outbox_retry(self, id: str) -> bool:  # noqa: A002
        """A dead item is due now, with all its tries. False, and nothing is changed, when it is not dead."""
        with self._plain() as connection:
            return outbox.revive(connection, id, self._clock.now())

    def audit(self, **wanted: Any) -> list[AuditEntry]:
        """A page of the audit trail; `wanted` as `trail.read` takes it."""
        with translated(), self._reading.connect() as connection:
            return trail.read(connection, **wanted)

    def refused(self, actor: Actor, verb: str, target: str, outcome: str, namespace: str = "") -> None:
        """Into the audit trail: somebody asked for a write and did not get it. `target` is the address."""
        self.noted(actor, verb, target, outcome, namespace=namespace)

    def noted(self, actor: Actor, verb: str, target: str, outcome: str, *, kind: str = "", namespace: str = "") -> None:
        """Into the audit trail: what is in no record's own history."""
        now = self._clock.now()
        entry = trail.entry(
            actor,
            at=now,
            uid=self._new_id(),
            verb=verb,
            namespace=namespace,
            kind=kind,
            name=target,
            outcome=outcome,
            change={},
        )
        with self._plain() as connection:
            trail.append(connection, [entry])

    def prune(self, limits: Retention = Retention()) -> None:  # noqa: B008
        """Drop what is beyond its limit: old changes, remembered answers, finished outbox items, old events, audit
        entries, evidence of finished jobs. To be called from time to time; records of jobs and what is of a live job
        are never touched."""
        now = self._clock.now()
        with self._plain() as connection:
            retention.prune_changes(connection, limits.changes, now)
            kept = tables.idempotency
            connection.execute(delete(kept).where(kept.c.at < now - REMEMBERED_SECONDS))
            box = tables.outbox
            connection.execute(delete(box).where(box.c.state != "due", box.c.done_at < now - OUTBOX_SECONDS))
            retention.prune_events(connection, limits, now)
            retention.prune_audit(connection, limits, now)
            retention.prune_evidence(connection, limits, now)
            connection.execute(delete(tables.sessions).where(tables.sessions.c.at < now - SESSION_SECONDS))

    @contextmanager
    def _plain(self) -> Iterator[Connection]:
        """A writing transaction beside the change log."""
        with self._my_turn(), translated(), self._writing.begin() as connection:
            yield connection

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        if getattr(self._inside, "writing", False):
            raise RuntimeError("a writing transaction inside another one would wait for itself")
        if self._turn is not None and not self._turn.acquire(timeout=BUSY_SECONDS):
            raise Contended(f"other threads have been writing for {BUSY_SECONDS:g} s")
        self._inside.writing = True
        try:
            yield
        finally:
            self._inside.writing = False
            if self._turn is not None:
                self._turn.release()


def _check_leader(connection: Connection, guard: LeaderLease) -> None:
    """The row stays share-locked until the commit, so nobody becomes leader in between."""
    if connection.dialect.name == "postgresql":
        impatient = func.set_config("idle_in_transaction_session_timeout", IDLE, True)
        row = connection.execute(_leader.add_columns(impatient)).one()
    else:
        row = connection.execute(_leader).one()
    if (row.holder, row.epoch) != (guard.holder, guard.epoch):
        raise LeadershipLost(
            f"{guard.holder} led with epoch {guard.epoch}; now it is epoch {row.epoch} of {row.holder}"
        )


def _commit(connection: Connection, transaction: RootTransaction) -> None:
    try:
        transaction.commit()
    except exc.DBAPIError as error:
        found = meaning(error)
        if connection.dialect.name == "postgresql" and isinstance(found, StoreUnavailable):
            raise StoreUnavailable(f"{found}; whether the commit happened is unknown", outcome_unknown=True) from error
        raise found from error
