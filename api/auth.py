"""Who is asking. People's tokens have roles (`api.rights`), agents' open their stream, an attempt's tells about itself."""

import threading
from typing import Final, Literal

from msgspec import Struct

from api.credentials import attempt_in, proves, token_hash
from api.rights import PEOPLE, needed, refusal
from controller.state import Store
from muster.clock import Clock
from muster.problems import Problem
from muster.states import AttemptPhase

Role = Literal["viewer", "submitter", "operator", "admin", "agent", "attempt"]

_AREAS: Final[tuple[tuple[str, Role, str], ...]] = (
    ("/api/v1/self", "attempt", "the token of an attempt"),
    ("/agent", "agent", "the token of an agent"),
)
"""What is not for people: the first prefix that fits decides. The rest of /api is theirs (`api.rights`), what is elsewhere open to
everybody."""

REMEMBER_SECONDS: Final = 30.0
"""How long a token that was good is not looked up again."""

USE_SECONDS: Final = 60.0
"""How exactly it is known when a token was used last."""


class Principal(Struct, frozen=True):
    """`attempt` is the uid of the attempt whose token it is; `namespace` of a token that reaches one alone."""

    role: Role
    name: str
    attempt: str = ""
    namespace: str = ""


def area(path: str) -> tuple[Role, str] | None:
    """The role that a path needs which is not for people, with its name for people."""
    for prefix, role, words in _AREAS:
        if path == prefix or path.startswith(prefix + "/"):
            return role, words
    return None


def guarded(path: str) -> bool:
    return path == "/api" or path.startswith("/api/") or area(path) is not None


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


def check(principal: Principal, method: str, path: str) -> None:
    """Raises Problem 403."""
    need = area(path)
    if need is not None:
        why = None if principal.role == need[0] else f"this needs {need[1]}, not an {principal.role}'s"
    elif principal.role in PEOPLE:
        known = needed(method, path) is not None
        why = refusal(principal.role, principal.namespace, method, path) if known else None
    else:
        why = f"this needs the token of a person, not an {principal.role}'s"
    if why is not None:
        raise Problem(403, "FORBIDDEN", "This token may not do that", why)


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
        now = self._clock.now()
        left = REMEMBER_SECONDS if found.expires_at is None else found.expires_at - now
        if left <= 0:
            raise unauthenticated("this token has expired")
        if found.last_used_at is None or now - found.last_used_at >= USE_SECONDS:
            self._store.transact(lambda w: w.used_token(digest, now))
        principal = Principal(found.role, found.name or found.role, namespace=found.namespace)
        with self._lock:
            self._known[digest] = (principal, self._clock.boottime() + min(left, REMEMBER_SECONDS))
        return principal

    def forget(self, digest: str) -> None:
        """A token that was revoked."""
        with self._lock:
            self._known.pop(digest, None)

    def _attempt(self, token: str, uid: str) -> Principal:
        """An attempt's token dies with it, so it is never remembered."""
        with self._store.read() as r:
            attempt = r.attempt(uid)
        if attempt is None or not proves(token, self.secret, attempt.uid, attempt.epoch):
            raise unauthenticated("this token is not known")
        if attempt.phase is AttemptPhase.ENDED:
            raise unauthenticated("the attempt of this token has ended")
        return Principal("attempt", f"{attempt.namespace}/{attempt.job_name}", attempt.uid)
