"""What nodes say is wrong with them: their conditions in their record, each beginning and end an event."""

from typing import Final

from msgspec.structs import replace

from api.observing import sound_time
from controller.acts.log import Level, node_event
from controller.records import NodeRecord
from controller.state import Writer
from muster.conditions import Condition
from muster.protocol import TaskResult
from muster.states import REPAIR_TERMINAL

MOST: Final = 256
LONGEST: Final = 1000
"""Conditions of one node, and characters of a message, that are kept."""


def has_conditions(w: Writer, name: str, conditions: tuple[Condition, ...], now: float) -> bool:
    """All that hold on this node now. True when one of them began, ended, or changed its severity."""
    node = w.node(name)
    if node is None:
        return False
    sound = tuple(_sound(one, now) for one in conditions[:MOST])
    if sound == node.conditions:
        return False
    w.patch_node(name, conditions=sound)
    before, after = ({one.key: one for one in some} for some in (node.conditions, sound))
    for key, one in after.items():
        if key not in before or before[key].severity != one.severity:
            _began(w, node, one, now)
    for key, one in before.items():
        if key not in after:
            node_event(w, node, f"{one.reason}Over", f"{_on(node, one)}: {one.kind} {one.reason} is over", now)
    return {key: one.severity for key, one in before.items()} != {key: one.severity for key, one in after.items()}


def has_result(w: Writer, name: str, result: TaskResult) -> bool:
    """A repair's task is done on this node."""
    for repair in w.repairs(name, live_only=True):
        if repair.task == result.uid and repair.phase not in REPAIR_TERMINAL and repair.answer is None:
            w.patch_repair(repair.uid, answer=replace(result, message=result.message[:LONGEST]))
            return True
    return False


def _began(w: Writer, node: NodeRecord, one: Condition, now: float) -> None:
    remedy = f"; asks for {one.remedy}" if one.remedy != "none" else ""
    level: Level = "normal" if one.severity == "info" else "warning"
    node_event(w, node, one.reason, f"{_on(node, one)}: {one.message} ({one.severity}{remedy})", now, level=level)


def _on(node: NodeRecord, one: Condition) -> str:
    return f"{node.name} {one.where}".rstrip()


def _sound(one: Condition, now: float) -> Condition:
    """Times that can be times, texts of a bearable length."""
    since = one.since if sound_time(one.since) and one.since > 0 else now
    return replace(
        one,
        kind=one.kind[:63],
        reason=one.reason[:63],
        subject=one.subject[:255],
        message=one.message[:LONGEST],
        since=since,
        seen=one.seen if sound_time(one.seen) and one.seen > 0 else since,
    )
