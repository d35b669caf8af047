"""All conditions that hold on this node now.

Two kinds: what the kernel said once holds until a reset, a reboot or a check (warnings: for an hour after they were last said);
what a check found holds for as long as it finds it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from agents.health.judging import HOLD, Judged
from muster.conditions import BLOCKING, Condition

Key = tuple[str, str, int | None, str]
MOST: Final = 200
_RANK: Final = {"fatal": 0, "error": 1, "warning": 2, "info": 3}


class Book:
    def __init__(self, latched: Iterable[Condition] = ()) -> None:
        self._latched: dict[Key, Condition] = {one.key: one for one in latched}
        self._standing: dict[str, dict[Key, Condition]] = {}

    def latched(self) -> tuple[Condition, ...]:
        return tuple(self._latched.values())

    def say(self, judged: Judged) -> Condition:
        """The kernel has said it, maybe again."""
        new = judged.condition
        old = self._latched.get(new.key)
        if old is not None and (old.severity in BLOCKING or new.seen - old.seen <= HOLD):
            count = old.count + 1
            severity = old.severity if _RANK[old.severity] < _RANK[new.severity] else new.severity
            if judged.again and count >= judged.again and severity == "warning":
                severity = "error"
            new = replace(new, since=old.since, seen=max(old.seen, new.seen), count=count, severity=severity)
        self._latched[new.key] = new
        if len(self._latched) > MOST:
            mildest = max(self._latched.values(), key=lambda one: (_RANK[one.severity], -one.seen))
            del self._latched[mildest.key]
        return new

    def found(self, check: str, conditions: Sequence[Condition], now: float, hold: float = 0.0) -> list[Condition]:
        """All that one run of a check has found; what of it is new. `hold`: seconds for which it is remembered when it
        is not found again."""
        before = self._standing.get(check, {})
        after: dict[Key, Condition] = {}
        for one in conditions:
            old = before.get(one.key)
            after[one.key] = replace(one, since=old.since if old else now, seen=now)
        for key, old in before.items():
            if key not in after and now - old.seen < hold:
                after[key] = old
        self._standing[check] = after
        return [one for key, one in after.items() if key not in before]

    def expire(self, now: float) -> None:
        for key, one in list(self._latched.items()):
            if one.severity not in BLOCKING and now - one.seen > HOLD:
                del self._latched[key]

    def forget(self, devices: Sequence[int] = (), *, node: bool = False) -> None:
        """What the kernel said about these devices (all of them with `node`, and what it said about the node)."""
        self._latched = {key: one for key, one in self._latched.items() if not node and one.device not in devices}

    def conditions(self) -> tuple[Condition, ...]:
        """Worst first, then oldest. That a tool calls a device unhealthy is left out where it is said why."""
        every = [*self._latched.values(), *(one for found in self._standing.values() for one in found.values())]
        explained = {one.device for one in every if one.blocking and one.kind != "DeviceUnhealthy"}
        kept = [one for one in every if one.kind != "DeviceUnhealthy" or one.device not in explained]
        kept.sort(key=lambda one: (_RANK[one.severity], one.since, one.kind, one.reason, one.device or 0, one.subject))
        return tuple(kept[:MOST])
