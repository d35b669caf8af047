"""What a look ahead says: plain values, which anybody may read without the planner."""

from enum import StrEnum

from msgspec import Struct


class Basis(StrEnum):
    """What a predicted start rests on, the firmest first."""

    NOW = "now"
    """It starts in the next plan."""
    LIMITS = "limits"
    """Declared time limits: what it waits for ends then at the latest."""
    HISTORY = "history"
    """How long the same jobs, or others of their program, ran before."""
    QUEUE = "queue history"
    """How long jobs of the same queue ran before."""
    BOUND = "bound"
    """Not planned one by one: not before this, if it is served in its turn."""
    NONE = "none"
    """Something that it waits for has no end that anybody knows, or it fits in no way."""


FIRMNESS = {basis: place for place, basis in enumerate(Basis)}


class Eta(Struct, frozen=True, kw_only=True):
    """When a waiting job starts, UTC seconds; None when that cannot be said, `note` says why."""

    job_uid: str
    at: float | None
    basis: Basis
    note: str = ""


class Forecast(Struct, frozen=True, kw_only=True):
    """The starts of all that waits, in the order of service, as they look at `now` and `revision`."""

    revision: int
    now: float
    etas: tuple[Eta, ...] = ()
    plans: int = 0
    """How often the planner was asked."""
