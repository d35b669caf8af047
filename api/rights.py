"""Who may do what: one table from method and path to the role that is needed. Pure.

viewer reads; submitter also submits, changes and steers jobs, and opens sessions beside them; operator also sees to nodes,
queues and what operators declare, and reads the audit trail; admin also has tokens and what is under /admin. A token may
be of one namespace: it reaches that one alone, and reads of the rest what names no job of others.
"""

import re
from typing import Final, Literal

from msgspec import Struct

Person = Literal["viewer", "submitter", "operator", "admin"]
PEOPLE: Final[tuple[Person, ...]] = ("viewer", "submitter", "operator", "admin")
"""The least first; each may what those before it may."""

READS: Final = ("GET", "HEAD", "OPTIONS")
API: Final = "/api/v1"


class Rule(Struct, frozen=True):
    """The first rule whose method (empty: any) and path fit decides. `shared`: a token of one namespace may, too."""

    methods: tuple[str, ...]
    path: re.Pattern[str]
    role: Person
    shared: bool = False


def _rule(methods: tuple[str, ...], path: str, role: Person, shared: bool = False) -> Rule:
    return Rule(methods, re.compile(API + path), role, shared)


_JOBS: Final = r"/namespaces/[^/]+/jobs"
RULES: Final = (
    _rule((), r"/(version|whoami|access)", "viewer", shared=True),
    _rule(READS, r"/admin/audit", "operator"),
    _rule((), r"/(admin|tokens)(/.*)?", "admin"),
    _rule((), rf"{_JOBS}/[^/]+/(exec|port-forward)", "submitter"),
    _rule(READS, r"/(nodes|queues|priorityclasses|reservations|maintenancewindows)(/[^/]+)?", "viewer", shared=True),
    _rule(READS, r"/.*", "viewer"),
    _rule(("POST",), r"/whatif", "viewer"),
    _rule((), rf"{_JOBS}(/.*)?", "submitter"),
    _rule((), r"/.*", "operator"),
)


def needed(method: str, path: str) -> Rule | None:
    """The rule for an address of people; None for one that is not theirs."""
    return next((rule for rule in RULES if method in (rule.methods or (method,)) and rule.path.fullmatch(path)), None)


def namespace_of(path: str) -> str | None:
    found = re.match(rf"{API}/namespaces/([^/]+)(/|$)", path)
    return found[1] if found else None


def refusal(role: str, namespace: str, method: str, path: str) -> str | None:
    """Why somebody with this role (of one namespace, or with "" of all) may not do that; None: it may."""
    rule = needed(method, path)
    if rule is None or role not in PEOPLE:
        return (
            "this is not for people's tokens" if rule is None else f"this needs the token of a person, not an {role}'s"
        )
    if namespace and not rule.shared and namespace_of(path) != namespace:
        return f"this token is of namespace {namespace}, and this is not in it"
    if namespace and method not in READS and namespace_of(path) != namespace:
        return f"this token is of namespace {namespace}; this needs a token of the whole cluster"
    if PEOPLE.index(role) < PEOPLE.index(rule.role):
        return f"this needs the role {rule.role}; this token has the role {role}"
    return None
