"""Every key of the scenario notation, by the place in which it may stand. A key that is not here is refused."""

from collections.abc import Iterable, Mapping
from typing import Any, Final


class UnknownKey(ValueError):
    """A scenario says something that the runner does not know."""


PART: Final = frozenset(
    [
        "part",
        "unit",
        "racks",
        "nvl",
        "devices",
        "running",
        "submit",
        "timeline",
        "timeline_same_as",
        "checks",
        "variant",
        "override",
        "submit_only",
        "queues",
        "flavours",
        "flavour_policy",
        "consolidation",
        "fence_after",
        "fence_margin",
        "recovery_timeout",
        "min_runtime",
        "max_pods",
        "continues",
        "generate",
        "title",
        "note",
        "source",
        "trap",
        "spread",
        "reservations",
        "maintenance",
    ]
)
ASIDE: Final = frozenset(["nodes", "size", "kind", "level", "from", "until", "queues", "users", "stop"])
SCENARIO: Final = PART | {"id", "parts"}
JOB: Final = frozenset(
    [
        "job",
        "pods",
        "per_pod",
        "required",
        "preferred",
        "segment",
        "prio",
        "queue",
        "runtime_min",
        "actual_runtime_min",
        "elastic",
        "roles",
        "groups",
        "spread",
        "holds",
        "ends",
        "declared_ends",
        "preemptible",
        "requeue",
        "migratable",
        "flavour",
        "flavours",
        "node_selector",
        "submitted_after",
        "depends_on",
        "quota_units",
        "max_per_node",
        "gpu",
        "npu",
        "intra_node",
        "rail_match",
        "allow_remainder",
        "exclude",
        "user",
        "speeds",
    ]
)
SEGMENT: Final = frozenset(["size", "level", "allow_remainder"])
ROLE: Final = frozenset(["role", "pods", "per_pod", "required"])
GROUP: Final = frozenset(["pods", "per_pod", "required"])
QUEUE: Final = frozenset(
    [
        "quota",
        "nominal",
        "parent",
        "weight",
        "borrow",
        "borrow_limit",
        "borrowing_limit",
        "lend",
        "lend_limit",
        "lending_limit",
        "min_runtime",
        "user_limit",
        "usage_half_life",
        "discipline",
        "kinds",
    ]
)
FLAVOUR: Final = frozenset(["nodes", "quota"])
POLICY: Final = frozenset(["order", "when_can_preempt", "when_can_borrow"])
EVENT: Final = frozenset(
    [
        "t",
        "submit",
        "cancel",
        "left",
        "node_dead",
        "link_lost",
        "link_back",
        "reports_running",
        "add_node",
        "ends",
        "remove_node",
        "cordon",
        "uncordon",
        "quota",
        "succeeded",
        "failed",
        "relabel",
    ]
)
CHECK: Final = frozenset(
    [
        "at",
        "placed",
        "placed_in",
        "placed_on_any",
        "placed_roles",
        "pending",
        "evictions",
        "evicted",
        "why",
        "whatif",
        "reserved",
        "charged",
        "used",
        "held",
        "reservation",
        "started",
        "stopped",
        "migrations",
        "shrunk_pods",
        "rejected",
        "per_domain",
        "ranks",
        "device_domain",
        "devices",
        "nics",
        "alert",
        "node_holders",
        "node_state",
        "capacity_counted",
        "restarts",
        "zombie_killed",
        "group_nodes",
        "moved_healthy",
        "cycles",
        "warned",
        "job_state",
        "running_jobs",
    ]
)
CHANGE: Final = frozenset(["manifest", "quota", "migrate", "nodes", "drain"])


def known(what: str, found: Mapping[str, Any], allowed: Iterable[str]) -> None:
    """Raises UnknownKey for the first key that is not allowed."""
    for key in found:
        if key not in allowed:
            raise UnknownKey(f"unknown key {key!r} in {what}")


def seconds(value: object, default: float = 60.0) -> float:
    """A time: a bare number is minutes; otherwise with its unit, e.g. 11s, 5m, 2h."""
    if isinstance(value, int | float):
        return float(value) * default
    text = str(value).strip()
    units = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :]
    if unit and unit not in units:
        raise UnknownKey(f"unknown unit of time in {text!r}")
    return float(number) * (units[unit] if unit else default)
