"""Values of the store that are not resources."""

from typing import Any, Literal

from msgspec import Struct

from muster.protocol import Assignment, WorkerReport


class LeaderLease(Struct, frozen=True):
    """Proof of leadership for `Store.write`. `holder` is unique to the process, `epoch` grows with each taking."""

    holder: str
    epoch: int


class TokenRecord(Struct, frozen=True, kw_only=True):
    """A bearer token, known by its hash only."""

    hash: str
    role: Literal["viewer", "submitter", "operator", "admin", "agent"]
    name: str = ""
    created_at: float = 0.0
    uid: str = ""
    namespace: str = ""
    """The one that it reaches; empty: all."""
    created_by: str = ""
    expires_at: float | None = None
    last_used_at: float | None = None
    """To the minute."""


class ClusterRecord(Struct, frozen=True, kw_only=True):
    """Whose database this is. `incarnation` is new whenever its history is not the one that agents have seen: made
    afresh, or restored from a backup. While `held_since` is set the controller decides nothing."""

    id: int = 1
    incarnation: str = ""
    held_since: float | None = None
    held_why: str = ""


class StrayRecord(Struct, frozen=True, kw_only=True):
    """A worker that a node says it has, of an attempt that this database does not know. `assignment` is what its agent
    was once told, None when the agent is too old to say. `discarded`: an operator wants it stopped."""

    worker_uid: str
    node: str
    attempt_uid: str
    epoch: int
    report: WorkerReport
    assignment: Assignment | None = None
    discarded: bool = False
    seen_at: float = 0.0


class SessionRecord(Struct, frozen=True, kw_only=True):
    """Somebody waits at the API process `url` for the agent of `node` to call, for the session that `offer` (a frame of
    the agent protocol) describes."""

    uid: str
    node: str
    url: str
    offer: str
    at: float = 0.0


class Remembered(Struct, frozen=True, kw_only=True):
    """The answer that was given to a request with an Idempotency-Key; `body_hash` tells a repeat from a reuse."""

    key: str
    body_hash: str
    response: Any
    at: float


class Actor(Struct, frozen=True, kw_only=True):
    """Who asked for what a transaction does. `request_id` leads to the server's log."""

    name: str
    role: str
    request_id: str = ""


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One write that somebody asked for, or tried. `at` is UTC seconds; `verb` create, update or delete, or the method
    of a request that was refused; `change` the fields that were written, or why nothing was; `size` the bytes held."""

    uid: str
    at: float
    actor: str
    role: str
    request_id: str
    verb: str
    namespace: str
    kind: str
    name: str
    outcome: str
    change: dict[str, Any]
    size: int


class OutboxItem(Struct, frozen=True, kw_only=True):
    """A side effect that was promised in a transaction. `tries` counts failures; `key` names it once and for all,
    so that the receiver can drop a repeat."""

    id: str
    key: str
    kind: str
    payload: dict[str, Any]
    state: Literal["due", "done", "dead"] = "due"
    tries: int = 0
    next_at: float = 0.0
    error: str = ""
    created_at: float = 0.0
    done_at: float | None = None


class StoredForecast(Struct, frozen=True, kw_only=True):
    """When waiting jobs will start, as somebody predicted at `revision`. `checked_at`: when its maker last found that
    it still holds; `seconds`: what it took to make; `body` is the forecast in JSON."""

    maker: str
    revision: int
    made_at: float
    checked_at: float
    seconds: float
    body: str


class Prediction(Struct, frozen=True, kw_only=True):
    """The first start that was predicted for a wait of a job, and, once it is known, the start."""

    job_uid: str
    made_at: float
    queue: str
    predicted: float
    basis: str
    started_at: float | None = None
