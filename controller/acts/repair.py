"""Writes what `repair_decide` says: repairs with their history, cordons, drains, hooks by the outbox. One transaction a
turn, on the rows of that transaction."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from msgspec.structs import replace

from controller.acts.log import node_event
from controller.acts.preempt import running, stop
from controller.acts.repair_decide import LEMON, Fleet, Turn, decide, fleet, wanted
from controller.acts.repair_policy import RepairPolicy
from controller.picture import Picture
from controller.records import Drain, IncidentRecord, NodeRecord, RepairRecord, RepairStep, WorkerRecord
from controller.state.writing import Writer
from muster.conditions import Condition, Remedy
from muster.reasons import End
from muster.states import REPAIR_TERMINAL, WORKER_TERMINAL, RepairPhase

MOST_STEPS = 60
DAY = 86400.0
Write = Callable[[Callable[[Writer], bool]], bool]


def repair_nodes(
    write: Write, picture: Picture, policy: RepairPolicy, *, now: float, new_id: Callable[[], str]
) -> bool:
    """One look at all nodes. True when something was written."""
    repairs = picture.repairs
    troubled = [node for node in picture.nodes.values() if any(one.blocking for one in node.conditions)]
    drained = [node for node in picture.nodes.values() if node.drain is not None]
    if not repairs and not troubled and not drained:
        return False
    wrote = False
    around = fleet(picture.nodes.values(), repairs.values(), now)
    open_on = {one.node for one in repairs.values()}
    for node in sorted(troubled, key=lambda one: one.name):
        if node.name not in open_on and (found := wanted(node, policy, now)) is not None:
            wrote |= write(
                partial(_open, name=node.name, causes=found[0], devices=found[1], policy=policy, now=now, new_id=new_id)
            )
    for repair in sorted(repairs.values(), key=lambda one: (one.created_at, one.uid)):
        if turn := _turn(repair, picture, around, policy, now):
            wrote |= write(partial(_act, uid=repair.uid, around=around, policy=policy, now=now, new_id=new_id))
            held = not repair.devices and turn.to is RepairPhase.DRAINING
            around = replace(around, held=around.held + held)
    for node in drained:
        wrote |= write(partial(drain_node, name=node.name, now=now))
    for repair in repairs.values():
        if repair.devices and repair.phase is RepairPhase.DRAINING and _busy(repair, picture.workers_on(repair.node)):
            wrote |= write(partial(_drain_devices, repair=repair, policy=policy, now=now))
    return wrote


def _turn(repair: RepairRecord, picture: Picture, around: Fleet, policy: RepairPolicy, now: float) -> Turn | None:
    node = picture.nodes.get(repair.node)
    if node is None:
        return Turn(to=RepairPhase.DROPPED, message="the node is gone")
    return decide(repair, node, _busy(repair, picture.workers_on(node.name)), around, policy, now)


def _busy(repair: RepairRecord, workers: Iterable[WorkerRecord]) -> list[str]:
    """Workers that are where the repair is and not known to be over."""
    return [
        one.uid
        for one in workers
        if one.phase not in WORKER_TERMINAL and (not repair.devices or set(one.devices) & set(repair.devices))
    ]


def _open(
    w: Writer,
    name: str,
    causes: tuple[Condition, ...],
    devices: tuple[int, ...],
    policy: RepairPolicy,
    now: float,
    new_id: Callable[[], str],
) -> bool:
    node = w.node(name)
    if node is None or w.repairs(name, live_only=True):
        return False
    dry = policy.mode == "dry-run"
    message = "; ".join(f"{one.where or 'node'}: {one.reason}" for one in causes[:4])
    repair = RepairRecord(
        uid=new_id(),
        node=name,
        conditions=causes[:16],
        devices=devices,
        dry_run=dry,
        boot_id=node.boot_id,
        message=message,
        steps=(RepairStep(now, RepairPhase.WAITING, message),),
        created_at=now,
        phase_since=now,
    )
    w.insert_repair(repair)
    node_event(w, node, "RepairOpened", f"{'dry run: ' if dry else ''}{message}", now, level="warning")
    return True


def _act(w: Writer, uid: str, around: Fleet, policy: RepairPolicy, now: float, new_id: Callable[[], str]) -> bool:
    repair = w.repair(uid)
    if repair is None or repair.phase in REPAIR_TERMINAL:
        return False
    node = w.node(repair.node)
    turn: Turn | None = Turn(to=RepairPhase.DROPPED, message="the node is gone")
    if node is not None:
        turn = decide(repair, node, _busy(repair, w.workers_of_node(node.name)), around, policy, now)
    if turn is None:
        return False
    fields = _fields(repair, turn, now, new_id)
    if node is not None:
        _write_node(w, node, repair, turn, now)
        if turn.to is not None and turn.to is not repair.phase:
            fields["boot_id"] = node.boot_id
        if turn.hook:
            w.enqueue("repair", _hook_payload(repair, turn, fields["task"], node), key=fields["task"])
        level = "normal" if turn.to in (None, RepairPhase.RETURNED, RepairPhase.CHECKING) else "warning"
        node_event(w, node, f"Repair{turn.to or repair.phase}", turn.message, now, level=level)  # type: ignore[arg-type]
    if turn.to is None or turn.to is repair.phase:
        w.patch_repair(uid, **fields)
    else:
        w.move_repair(uid, turn.to, **fields)
    return True


def _fields(repair: RepairRecord, turn: Turn, now: float, new_id: Callable[[], str]) -> dict[str, Any]:
    phase = turn.to or repair.phase
    steps = (*repair.steps, RepairStep(now, phase, turn.message))
    fields: dict[str, Any] = {"message": turn.message, "steps": steps[:1] + steps[1:][-MOST_STEPS + 1 :]}
    if turn.to is not None:
        fields |= {"phase_since": now, "task": new_id() if turn.task else "", "answer": None}
    if turn.to in REPAIR_TERMINAL:
        fields["ended_at"] = now
    if turn.tried:
        fields["tried"] = (*repair.tried, turn.tried)
    if turn.cordon:
        fields["devices"] = ()
    return fields


def _write_node(w: Writer, node: NodeRecord, repair: RepairRecord, turn: Turn, now: float) -> None:
    """A cordon of somebody else's stays theirs."""
    own = node.cordoned_by == _name(repair)
    if turn.cordon:
        fields: dict[str, Any] = {}
        if not node.cordoned:
            fields = {"cordoned": True, "cordoned_by": _name(repair), "cordon_reason": turn.message[:300]}
        if turn.drain and node.drain is None:
            fields["drain"] = Drain(by=_name(repair), at=now, policy=turn.drain, reason=turn.message[:300])
        if fields:
            w.patch_node(node.name, **fields)
    elif turn.uncordon or turn.to is RepairPhase.DROPPED:
        fields = {"cordoned": False, "cordoned_by": "", "cordon_reason": ""} if own else {}
        if node.drain is not None and node.drain.by == _name(repair):
            fields["drain"] = None
        if fields:
            w.patch_node(node.name, **fields)


def _name(repair: RepairRecord) -> str:
    return f"repair/{repair.uid}"


def _hook_payload(repair: RepairRecord, turn: Turn, task: str, node: NodeRecord) -> dict[str, Any]:
    return {
        "hook": turn.hook,
        "repair": repair.uid,
        "task": task,
        "node": node.name,
        "address": node.address,
        "bootId": node.boot_id,
        "message": turn.message,
        "conditions": [
            {"kind": one.kind, "reason": one.reason, "device": one.device, "message": one.message}
            for one in repair.conditions
        ],
    }


# -- drains ---------------------------------------------------------------------------------------------


def drain_node(w: Writer, name: str, now: float) -> bool:
    """Whoever still runs on it is told to save and go, unless it may finish. Told once: a gang that is stopping is."""
    node = w.node(name)
    if node is None or node.drain is None or node.drain.policy == "finish":
        return False
    return _stop_gangs(w, w.workers_of_node(name), f"node {name} is being drained: {node.drain.reason}", now)


def _drain_devices(w: Writer, repair: RepairRecord, policy: RepairPolicy, now: float) -> bool:
    """A device that is to be reset: only those who have it go, and they may finish when it is not urgent."""
    urgent = policy.drain == "now" or any(one.severity == "fatal" for one in repair.conditions)
    if policy.drain == "finish" or not urgent:
        return False
    workers = [one for one in w.workers_of_node(repair.node) if set(one.devices) & set(repair.devices)]
    return _stop_gangs(w, workers, f"a device of {repair.node} is being reset: {repair.message}", now)


def _stop_gangs(w: Writer, workers: Iterable[WorkerRecord], message: str, now: float) -> bool:
    wrote = False
    for job_uid, attempt_uid in sorted({(one.job_uid, one.attempt_uid) for one in workers}):
        gang = running(w, job_uid, attempt_uid)
        if gang is not None:
            stop(w, gang, End.DRAINED, message[:300].rstrip(": "), now)
            wrote = True
    return wrote


def quarantine(
    write: Write, incidents: Iterable[IncidentRecord], picture: Picture, policy: RepairPolicy, *, now: float,
    new_id: Callable[[], str],
) -> bool:  # fmt: skip
    """Open a repair for every node on which several jobs have failed."""
    wrote = False
    open_on = {one.node for one in picture.repairs.values()}
    for name, condition in sorted(lemons(incidents, policy, now).items()):
        node = picture.nodes.get(name)
        seen = node is not None and node.uncordoned_at is not None and condition.since <= node.uncordoned_at
        if node is None or name in open_on or seen or policy.mode == "off":
            continue
        wrote |= write(
            partial(_open, name=name, causes=(condition,), devices=(), policy=policy, now=now, new_id=new_id)
        )
    return wrote


def lemons(incidents: Iterable[IncidentRecord], policy: RepairPolicy, now: float) -> dict[str, Condition]:
    """Nodes on which several jobs have failed within a day: not one of the failures alone would say so."""
    failures: dict[str, list[tuple[str, float]]] = {}
    for incident in incidents:
        if policy.lemon and now - incident.opened_at < DAY and incident.verdict.node_at_fault is not False:
            for node in incident.verdict.culprit_nodes:
                failures.setdefault(node, []).append((incident.job_uid, incident.opened_at))
    return {
        node: Condition(
            kind=LEMON,
            reason="SeveralJobsFailed",
            message=f"{len(found)} failures of {len({job for job, _ in found})} jobs within a day",
            severity="error",
            remedy=Remedy.REPLACE,
            since=max(at for _, at in found),
            seen=max(at for _, at in found),
            count=len(found),
        )
        for node, found in failures.items()
        if len(found) >= policy.lemon and len({job for job, _ in found}) > 1
    }
