"""Leader election by one row, without trusting anybody's wall clock.

A candidate takes the row when it has seen the same renewal count for a whole lease on its own CLOCK_BOOTTIME, and it
takes it by compare-and-set, so two cannot both succeed. The holder counts its lease from before each renewal was
sent, so it gives up before any candidate may take over. What protects the data is the epoch that `Store.write`
checks; this protects against two loops at once.
"""

from typing import Final

from msgspec import Struct
from sqlalchemy import bindparam, select, update

from controller.state import tables
from controller.state.engine import translated
from controller.state.errors import StoreUnavailable
from controller.state.store import Store
from controller.state.types import LeaderLease
from muster.clock import Clock

_row = tables.leader
_read: Final = select(_row.c.holder, _row.c.epoch, _row.c.renewals, _row.c.at)
_swap: Final = update(_row).where(
    _row.c.holder == bindparam("old_holder"),
    _row.c.epoch == bindparam("old_epoch"),
    _row.c.renewals == bindparam("old_renewals"),
)
_renew: Final = (
    update(_row)
    .where(_row.c.holder == bindparam("old_holder"), _row.c.epoch == bindparam("old_epoch"))
    .values(renewals=_row.c.renewals + 1, at=bindparam("now"))
)


BREAK: Final = 30.0
"""Seconds beyond a lease that a takeover may take."""


class Seen(Struct, frozen=True):
    """The row as it was read."""

    holder: str
    epoch: int
    renewals: int
    at: float


class Election:
    """One candidate. `holder` must be unique to this process (a restarted one is another candidate). Not for several
    threads at once."""

    def __init__(self, store: Store, holder: str, clock: Clock, lease_seconds: float) -> None:
        if not holder:
            raise ValueError("a candidate needs a name")
        self._store, self._holder, self._clock, self._seconds = store, holder, clock, lease_seconds
        self._seen: Seen | None = None
        self._seen_at = 0.0
        self._held: LeaderLease | None = None
        self._held_from = 0.0
        self.attended = 0.0
        """UTC seconds since when somebody has led without a break, by this process's clock: 0 where the leader before
        left off just now, else (a cluster that was down, clocks that differ) the begin of this process's own term."""

    def campaign(self) -> LeaderLease | None:
        """Look at the row; take it when it is free or was not renewed for a whole lease. To be called a few times in
        each lease. Raises StoreUnavailable."""
        with translated(), self._store._reading.connect() as connection:
            seen = Seen(*connection.execute(_read).one())
        now = self._clock.boottime()
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        if seen.holder and now - self._seen_at < self._seconds:
            return None
        lease = LeaderLease(self._holder, seen.epoch + 1)
        if not self._swapped(seen, lease.holder, lease.epoch):
            return None
        self._held, self._held_from = lease, now
        absent = self._clock.now() - seen.at
        self.attended = 0.0 if -BREAK < absent < self._seconds + BREAK else self._clock.now()
        return lease

    def renew(self, lease: LeaderLease) -> bool:
        """Whether this process may still act as leader. An unreachable database is no loss before the time is up;
        once False, it stays so: campaign again."""
        if not self.holds(lease):
            self._held = None
            return False
        now = self._clock.boottime()
        values = {"old_holder": lease.holder, "old_epoch": lease.epoch, "now": self._clock.now()}
        try:
            with self._store._plain() as connection:
                renewed = connection.execute(_renew, values).rowcount == 1
        except StoreUnavailable:
            return self.holds(lease)
        if renewed:
            self._held_from = now
        else:
            self._held = None
        return self.holds(lease)

    def holds(self, lease: LeaderLease) -> bool:
        """By this process's own clock: renewed less than a lease ago. No look at the database."""
        return self._held == lease and self._clock.boottime() - self._held_from < self._seconds

    def resign(self, lease: LeaderLease) -> None:
        """Free the row for the next candidate at once; nothing happens when it is someone else's already."""
        if self._held == lease:
            self._held = None
        with self._store._plain() as connection:
            connection.execute(
                _renew.values(holder=""),
                {"old_holder": lease.holder, "old_epoch": lease.epoch, "now": self._clock.now()},
            )

    def _swapped(self, seen: Seen, holder: str, epoch: int) -> bool:
        values = {"old_holder": seen.holder, "old_epoch": seen.epoch, "old_renewals": seen.renewals}
        new = {"holder": holder, "epoch": epoch, "renewals": seen.renewals + 1, "at": self._clock.now()}
        with self._store._plain() as connection:
            return connection.execute(_swap, values | new).rowcount == 1
