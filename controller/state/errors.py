"""What the store raises. Every message is a sentence that may be shown to people."""


class StoreError(Exception):
    """Base of all below."""


class StoreUnavailable(StoreError):
    """The database cannot be reached, or did not answer in time. `outcome_unknown`: the connection broke during
    the commit, so the transaction may or may not have happened; read before repeating it."""

    def __init__(self, message: str, *, outcome_unknown: bool = False) -> None:
        super().__init__(message)
        self.outcome_unknown = outcome_unknown


class Contended(StoreUnavailable):
    """Another transaction was in the way (deadlock, serialisation failure, database locked). Nothing was written;
    the same transaction may be run again, as `Store.transact` does."""


class SchemaMismatch(StoreError):
    """The database's schema is not the one that this program knows."""


class BadValue(StoreError, ValueError):
    """A value that the database cannot hold (for example an integer beyond 64 bits)."""


class LeadershipLost(StoreError):
    """The guard's epoch is not the leader row's any more. Nothing was written."""


class NotFound(StoreError):
    """There is no such thing."""


class Conflict(StoreError):
    """The row was changed by someone else since it was read."""


class Taken(StoreError):
    """A unique row (a name, a device, a port, the one live attempt) belongs to someone else. The transaction is
    spoilt: it cannot commit even when this error is caught inside."""


class TooOld(StoreError):
    """The change log does not reach back (or not yet forward) to this revision: begin again with a snapshot."""

    def __init__(self, after: int, oldest: int, newest: int) -> None:
        super().__init__(f"changes after revision {after} are not available: the log holds {oldest} to {newest}")
        self.after, self.oldest, self.newest = after, oldest, newest


class IllegalMove(StoreError):
    """A move that is not in `muster.states`. Nothing was written; the transaction may go on."""

    def __init__(self, kind: str, uid: str, source: str, target: str) -> None:
        super().__init__(f"{kind} {uid} cannot go from {source} to {target}")
        self.kind, self.uid, self.source, self.target = kind, uid, source, target
