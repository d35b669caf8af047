"""What gangs have in common: two that ask for the same share one answer, whoever asks."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from controller.scheduling.types import GangRequest

Turn = tuple[bool, int, bool, float, str, str, str]

_NOBODY: dict[str, Any] = {
    "job_uid": "",
    "namespace": "",
    "name": "",
    "scope": "",
    "queued_at": 0.0,
    "preferred_level": None,
}
_NOWHERE: dict[str, Any] = {"preferred": (), "limit": None, "after": (), "claim": None, "repair": False}


class Kind:
    """Everything of a request that a reason speaks of (`bare`), with the kind of what decides whether it fits or may
    evict (`wish`, which is its own wish). Kinds are interned: they are the same where their requests are."""

    __slots__ = ("__weakref__", "bare", "plain", "wish")

    def __init__(self, bare: GangRequest, wish: "Kind | None") -> None:
        self.bare = bare
        self.wish: Kind = wish or self
        self.plain = not (bare.claim or bare.after or bare.repair)
        """Nothing but the room, the books and the victims decides about it."""


class Asked(Struct, frozen=True, eq=False, gc=False):
    """A gang that may start now, and its place in the order of service."""

    turn: Turn
    request: GangRequest
    kind: Kind


def anybody(request: GangRequest) -> GangRequest:
    """The request without who asks."""
    return replace(request, **_NOBODY)


def wish_of(bare: GangRequest) -> GangRequest:
    """What decides whether it fits, wherever it would like to lie; its limit is compared by the plan itself."""
    return replace(bare, **_NOWHERE)
