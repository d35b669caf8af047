"""What becomes of a node with something wrong: a matrix of a repair's phase x what the node shows. Pure.

Invariants:

* a condition from before a person's uncordon is theirs: it opens no repair, and an open one ends;
* automatic cordons never hold more than the breaker's share of the fleet (one node is always allowed);
* what many nodes have at once (one mount, one switch) is no node's fault: nobody is evicted;
* no rung of the ladder is used more often than the policy says; after the last one people are asked;
* every phase but Waiting and Ticketed has a deadline.

| phase     | what the node shows                         | becomes                                       |
| --------- | ------------------------------------------- | --------------------------------------------- |
| any       | a person has uncordoned it                  | Dropped                                       |
| Waiting   | nothing blocks any more                     | Dropped                                       |
| Waiting   | the breaker is open, many nodes have it     | stays, and says so                            |
| Waiting   | (else)                                      | Draining: cordoned (a device alone is not)    |
| Draining  | nothing blocks any more                     | Checking                                      |
| Draining  | empty                                       | the next rung: Resetting, Rebooting, Ticketed |
| Resetting | done / failed, too late                     | Checking / the next rung                      |
| any       | the next rung is more than one device's     | Draining: the whole node                      |
| Rebooting | a new boot id / hook failed, too late       | Checking / Ticketed                           |
| Ticketed  | nothing blocks any more; where a remedy was |                                               |
|           | named, on a new boot                        | Checking                                      |
| Checking  | nothing found / something found, too late   | Returned / the next rung                      |
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from controller.acts.repair_policy import RepairPolicy
from controller.records import NodeRecord, RepairRecord
from muster.conditions import Condition, Remedy
from muster.states import NodePhase, RepairPhase

LEMON: Final = "Lemon"
"""What no agent sees: several jobs have failed here. It holds until a person uncordons the node."""
PASSIVE: Final = ("Leftover",)
"""Who uses a device that nobody was given is not reset away: the device is not offered until it is free again."""
SHARED_KINDS: Final = ("Mount", "Clock")
"""What hangs on one thing that many nodes use."""
SHARED: Final = 3
"""So many nodes with one such condition are no accident."""
SHARED_WITHIN: Final = 600.0
_RUNGS: Final = (Remedy.RESET, Remedy.REBOOT, Remedy.REPLACE)
_AT: Final = {
    Remedy.RESET: RepairPhase.RESETTING,
    Remedy.REBOOT: RepairPhase.REBOOTING,
    Remedy.REPLACE: RepairPhase.TICKETED,
}
P = RepairPhase


class Turn(Struct, frozen=True, kw_only=True):
    """What happens to a repair now. `cordon` and `uncordon` are of the node; `hook` is called by a task of its own; `tried`
    is added to what was tried; `task` begins a new task (of the agent, or of the hook)."""

    to: RepairPhase | None = None
    message: str = ""
    cordon: bool = False
    uncordon: bool = False
    drain: Literal["now", "finish", ""] = ""
    hook: Literal["reboot", "ticket", ""] = ""
    task: bool = False
    tried: str = ""


class Fleet(Struct, frozen=True, kw_only=True):
    """What a decision about one node needs of the others: how many there are, how many automatic cordons hold, and on
    how many nodes each shared condition is."""

    nodes: int
    held: int
    shared: Mapping[tuple[str, str], int]

    def open_for(self, policy: RepairPolicy) -> bool:
        return self.held < max(1, int(policy.breaker * self.nodes))


def fleet(nodes: Iterable[NodeRecord], repairs: Iterable[RepairRecord], now: float) -> Fleet:
    shared: dict[tuple[str, str], int] = {}
    count = 0
    for node in nodes:
        count += 1
        for key in {(one.kind, one.subject) for one in node.conditions if _shared(one, now)}:
            shared[key] = shared.get(key, 0) + 1
    held = sum(one.phase not in (P.WAITING, P.RETURNED, P.DROPPED) and not one.devices for one in repairs)
    return Fleet(nodes=count, held=held, shared=shared)


def _shared(one: Condition, now: float) -> bool:
    return one.blocking and one.kind in SHARED_KINDS and now - one.since < SHARED_WITHIN


def causes(node: NodeRecord, policy: RepairPolicy, now: float) -> tuple[Condition, ...]:
    """The conditions for which something must be done: those that block, that last, and that no person has seen."""
    return tuple(
        one
        for one in node.conditions
        if one.blocking
        and one.kind not in PASSIVE
        and (node.uncordoned_at is None or one.since > node.uncordoned_at)
        and (one.severity == "fatal" or now - one.since >= policy.patience)
    )


def wanted(node: NodeRecord, policy: RepairPolicy, now: float) -> tuple[tuple[Condition, ...], tuple[int, ...]] | None:
    """The causes and the devices of a repair to open; no devices: it is about the whole node. None: nothing to do.
    A device that needs no more than a reset does not take its node out."""
    found = causes(node, policy, now)
    if policy.mode == "off" or not found or node.phase is NodePhase.LOST:
        return None
    if all(one.device is not None and one.remedy is Remedy.RESET for one in found):
        return found, tuple(sorted({one.device for one in found if one.device is not None}))
    return found, ()


def decide(
    repair: RepairRecord, node: NodeRecord, busy: Sequence[str], around: Fleet, policy: RepairPolicy, now: float
) -> Turn | None:
    """One row of the matrix; None: it stays. `busy` are the workers that are still where the repair is."""
    if _taken_back(repair, node):
        return Turn(to=P.DROPPED, message="a person has taken the node back into use")
    left = (*causes(node, policy, now), *(one for one in repair.conditions if one.kind == LEMON))
    match repair.phase:
        case P.WAITING:
            return _waiting(repair, node, busy, left, around, policy)
        case P.DRAINING if not left:
            return Turn(to=P.CHECKING, message="nothing is wrong any more; looking again", task=True)
        case P.DRAINING if not busy:
            return _next_rung(repair, left, policy, "empty")
        case P.RESETTING:
            return _answered(repair, left, policy, now, policy.reset_timeout, "reset")
        case P.REBOOTING:
            return _rebooting(repair, node, left, policy, now)
        case P.TICKETED if not left and node.phase is NodePhase.READY and _may_return(repair, node):
            return Turn(to=P.CHECKING, message="nothing is wrong any more; looking again", task=True)
        case P.CHECKING:
            return _checking(repair, left, policy, now)
    return None


def _may_return(repair: RepairRecord, node: NodeRecord) -> bool:
    """What names a remedy is over only with a new boot, though it may be silent now; what names none may just pass."""
    return node.boot_id != repair.boot_id or all(one.remedy is Remedy.NONE for one in repair.conditions)


def _taken_back(repair: RepairRecord, node: NodeRecord) -> bool:
    return node.uncordoned_at is not None and node.uncordoned_at > repair.created_at


def _waiting(
    repair: RepairRecord,
    node: NodeRecord,
    busy: Sequence[str],
    left: tuple[Condition, ...],
    around: Fleet,
    policy: RepairPolicy,
) -> Turn | None:
    if not left:
        return Turn(to=P.DROPPED, message="nothing is wrong any more")
    many = [one for one in left if around.shared.get((one.kind, one.subject), 0) >= SHARED]
    if many and len(many) == len(left):
        count = around.shared[(many[0].kind, many[0].subject)]
        what = f"{many[0].kind} {many[0].subject}".strip()
        return _said(repair, f"{count} nodes have it at once ({what}): it is none of theirs, nobody is evicted")
    if not repair.devices and not around.open_for(policy):
        share = f"{around.held} of {around.nodes} nodes are held by automatic cordons"
        return _said(repair, f"{share}: the breaker (share {policy.breaker:g}) lets no more go")
    drain = _drain(left, policy)
    what = f"device {', '.join(map(str, repair.devices))}" if repair.devices else "the node"
    how = "what runs is stopped" if drain == "now" else "what runs may finish"
    message = f"{_names(left)}: {what} is taken out, {how} ({len(busy)} workers)"
    if policy.mode == "dry-run":
        return _said(repair, f"dry run: {message}; then {_remedy(repair, left, policy)[1]}")
    return Turn(to=P.DRAINING, message=message, cordon=not repair.devices, drain=drain)


def _said(repair: RepairRecord, message: str) -> Turn | None:
    return None if repair.message == message else Turn(message=message)


def _drain(left: Sequence[Condition], policy: RepairPolicy) -> Literal["now", "finish"]:
    if policy.drain != "auto":
        return policy.drain
    return "now" if any(one.severity == "fatal" for one in left) else "finish"


def _remedy(repair: RepairRecord, left: Sequence[Condition], policy: RepairPolicy) -> tuple[Remedy, str]:
    """The cheapest rung that may help and is not used up, and why it is that one."""
    named = [_RUNGS.index(one.remedy) for one in left if one.remedy in _RUNGS]
    least = max(named, default=2)  # what names no remedy may pass with that of another, or needs people
    used = {Remedy.RESET: policy.resets, Remedy.REBOOT: policy.reboots}
    for rung in _RUNGS[least:]:
        if rung is Remedy.REPLACE:
            break
        if repair.tried.count(str(rung)) >= used[rung]:
            continue
        if rung is Remedy.RESET and not _devices(repair, left):
            continue
        if rung is Remedy.REBOOT and not policy.reboot:
            continue
        return rung, f"{rung}"
    said = " and ".join(dict.fromkeys(repair.tried)) or "nothing that Muster can do itself"
    return Remedy.REPLACE, f"a person is needed: {said} did not help" if repair.tried else f"a person is needed: {said}"


def _devices(repair: RepairRecord, left: Sequence[Condition]) -> tuple[int, ...]:
    return repair.devices or tuple(sorted({one.device for one in left if one.device is not None}))


def _next_rung(repair: RepairRecord, left: Sequence[Condition], policy: RepairPolicy, why: str) -> Turn:
    rung, said = _remedy(repair, left or repair.conditions, policy)
    if repair.devices and rung is not Remedy.RESET:
        message = f"{why}; {said}: now the whole node is taken out"
        return Turn(to=P.DRAINING, message=message, cordon=True, drain="now")
    return Turn(to=_AT[rung], message=f"{why}; {said}", hook=_hook(rung, policy), task=True, tried=str(rung))


def _hook(rung: Remedy, policy: RepairPolicy) -> Literal["reboot", "ticket", ""]:
    if rung is Remedy.REBOOT:
        return "reboot"
    return "ticket" if rung is Remedy.REPLACE and policy.ticket else ""


def _answered(
    repair: RepairRecord, left: Sequence[Condition], policy: RepairPolicy, now: float, limit: float, what: str
) -> Turn | None:
    answer = repair.answer
    if answer is not None and answer.at:
        if answer.ok:
            return Turn(to=P.CHECKING, message=f"{what}: {answer.message or 'done'}", task=True)
        return _next_rung(repair, left, policy, f"{what} failed: {answer.message}")
    if now - repair.phase_since > limit:
        return _next_rung(repair, left, policy, f"no answer to the {what} within {limit:g} s")
    return None


def _rebooting(
    repair: RepairRecord, node: NodeRecord, left: Sequence[Condition], policy: RepairPolicy, now: float
) -> Turn | None:
    """Only a new boot id is proof. What became of a hook whose task died in the middle nobody knows: it is not called
    again, and the deadline decides."""
    if node.boot_id != repair.boot_id and node.phase is NodePhase.READY:
        return Turn(to=P.CHECKING, message="it has booted", task=True)
    answer = repair.answer
    if answer is not None and answer.at and not answer.ok:
        return _ticket(policy, f"the reboot hook failed: {answer.message}")
    if now - repair.phase_since > policy.reboot_timeout:
        called = "was called" if answer is not None else "was never called"
        return _ticket(policy, f"the reboot hook {called}, and there is no new boot after {policy.reboot_timeout:g} s")
    return None


def _ticket(policy: RepairPolicy, why: str) -> Turn:
    message = f"{why}; a person is needed"
    return Turn(to=P.TICKETED, message=message, hook="ticket" if policy.ticket else "", task=True, tried="replace")


def _checking(repair: RepairRecord, left: Sequence[Condition], policy: RepairPolicy, now: float) -> Turn | None:
    answer = repair.answer
    if answer is not None and answer.at and answer.ok:
        return Turn(to=P.RETURNED, message=f"back in use: {answer.message}", uncordon=True)
    if answer is not None and answer.at:
        return _next_rung(repair, left, policy, f"the check found: {answer.message}")
    if now - repair.phase_since > policy.check_timeout:
        return _next_rung(repair, left, policy, f"no check within {policy.check_timeout:g} s")
    return None


def _names(left: Sequence[Condition]) -> str:
    return ", ".join(dict.fromkeys(f"{one.reason} ({one.where})" if one.where else one.reason for one in left[:4]))
