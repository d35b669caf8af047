"""Who is asking, and what each role may reach. The tables are few on purpose: people may use the REST API, agents may
open their stream, an attempt may read about itself."""

import threading
from typing import Final, Literal

from msgspec import Struct

from api.credentials import attempt_in, proves, token_hash
from controller.state import Store
from muster.clock import Clock
from muster.problems import Problem
from muster.states import AttemptPhase

Role = Literal["admin", "agent", "attempt"]

_AREAS: Final[tuple[tuple[str, Role, str], ...]] = (
    ("/api/v1/self", "attempt", "the token of an attempt"),
    ("/api", "admin", "the token of an administrator"),
    ("/agent", "agent", "the token of an agent"),
)
"""The first prefix that fits decides; what fits none is open to everybody."""

REMEMBER_SECONDS: Final = 30.0
"""How long a token that was good is not looked up again."""


class Principal(Struct, frozen=True):
    """`attempt` is the uid of the attempt whose token it is."""

    role: Role
    name: str
    attempt: str = ""


def needed(path: str) -> tuple[Role, str] | None:
    """The role that a path needs, with its name for people; None when anyone may ask."""
    for prefix, role, words in _AREAS:
        if path == prefix or path.startswith(prefix + "/"):
            return role, words
    return None


def bearer(header: str | None) -> str:
    """The token of an Authorization header. Raises Problem 401."""
    scheme, _, token = (header or "").strip().partition(" ")
    if not header:
        raise unauthenticated("no token: send `Authorization: Bearer TOKEN`")
    if scheme.lower() != "bearer" or not token.strip():
        raise unauthenticated("expected `Authorization: Bearer TOKEN`")
    return token.strip()


def unauthenticated(detail: str) -> Problem:
    return Problem(401, "UNAUTHENTICATED", "A valid token is needed", detail)


def check(principal: Principal, role: Role, words: str) -> None:
    """Raises Problem 403."""
    if principal.role != role:
        raise Problem(403, "FORBIDDEN", "This token may not do that", f"this needs {words}, not an {principal.role}'s")


class Authenticator:
    """Turns tokens into principals. Safe to share between threads."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self.secret = ""
        self._known: dict[str, tuple[Principal, float]] = {}
        self._lock = threading.Lock()

    def remembered(self, token: str) -> Principal | None:
        found = self._known.get(token_hash(token))
        return found[0] if found is not None and self._clock.boottime() < found[1] else None

    def principal(self, token: str) -> Principal:
        """Reads the database. Raises Problem 401."""
        attempt_uid = attempt_in(token)
        if attempt_uid is not None:
            return self._attempt(token, attempt_uid)
        digest = token_hash(token)
        with self._store.read() as r:
            found = r.token(digest)
        if found is None:
            raise unauthenticated("this token is not known")
        principal = Principal(found.role, found.name or found.role)
        with self._lock:
            self._known[digest] = (principal, self._clock.boottime() + REMEMBER_SECONDS)
        return principal

    def _attempt(self, token: str, uid: str) -> Principal:
        """An attempt's token dies with it, so it is never remembered."""
        with self._store.read() as r:
            attempt = r.attempt(uid)
        if attempt is None or not proves(token, self.secret, attempt.uid, attempt.epoch):
            raise unauthenticated("this token is not known")
        if attempt.phase is AttemptPhase.ENDED:
            raise unauthenticated("the attempt of this token has ended")
        return Principal("attempt", f"{attempt.namespace}/{attempt.job_name}", attempt.uid)
