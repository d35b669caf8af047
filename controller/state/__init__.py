"""The state of the cluster: tables, migrations, store, change log, outbox, leader lease, hints."""

from controller.state.beside import checkpoint_directory
from controller.state.changes import Reader, Reading
from controller.state.errors import (
    BadValue,
    Conflict,
    Contended,
    IllegalMove,
    LeadershipLost,
    NotFound,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
    Taken,
    TooOld,
)
from controller.state.store import Store, open_store
from controller.state.types import (
    Actor,
    AuditEntry,
    ClusterRecord,
    LeaderLease,
    OutboxItem,
    Prediction,
    Remembered,
    SessionRecord,
    StoredForecast,
    StrayRecord,
    TokenRecord,
)
from controller.state.writing import Writer

__all__ = [
    "Actor",
    "AuditEntry",
    "BadValue",
    "ClusterRecord",
    "Conflict",
    "Contended",
    "IllegalMove",
    "LeaderLease",
    "LeadershipLost",
    "NotFound",
    "OutboxItem",
    "Prediction",
    "Reader",
    "Reading",
    "Remembered",
    "SchemaMismatch",
    "SessionRecord",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "StoredForecast",
    "StrayRecord",
    "Taken",
    "TokenRecord",
    "TooOld",
    "Writer",
    "checkpoint_directory",
    "open_store",
]
