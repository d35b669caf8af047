"""Compares a world with what a scenario says of it. Every check returns the sentences of what is wrong."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from controller.records import Change, JobRecord, Record
from controller.scheduling.fabric import path_of
from controller.scheduling.index import ClusterIndex, apply
from controller.scheduling.planner import plan
from controller.scheduling.types import Plan
from controller.simulation.scenario_cast import LEVELS, add_node, job_of, quota_spec
from controller.simulation.scenario_keys import CHANGE, CHECK, UnknownKey, known, seconds
from controller.simulation.scenario_run import Play
from muster.states import NodePhase

Problem = str


def verify(play: Play, check: Mapping[str, Any]) -> list[Problem]:
    """Everything in one check that does not hold."""
    known("checks", check, CHECK)
    problems: list[Problem] = []
    for key, wanted in check.items():
        if key != "at":
            problems += [f"{key}: {problem}" for problem in _CHECKS[key](play, wanted)]
    return problems


def _differ(what: str, found: object, wanted: object) -> Iterator[Problem]:
    if found != wanted:
        yield f"{what} is {found}, not {wanted}"


def _nodes(play: Play, job: str) -> dict[str, int]:
    return dict(Counter(worker.node for worker in play.world.workers(job)))


def _placed(play: Play, wanted: Mapping[str, Any]) -> Iterator[Problem]:
    for job, nodes in wanted.items():
        accepted = nodes if isinstance(nodes, list) else [nodes]
        found = _nodes(play, job)
        if found not in accepted:
            yield f"{job} is on {found}, not {nodes}"


def _placed_in(play: Play, wanted: Mapping[str, str]) -> Iterator[Problem]:
    for job, domain in wanted.items():
        found = {_path(play, node, domain.count("/") + 1) for node in _nodes(play, job)}
        yield from _differ(job, sorted(found), [domain])


def _path(play: Play, node: str, depth: int) -> str:
    parts = path_of(play.world.index.nodes[node].labels, LEVELS)
    return "/".join(part or "-" for part in (*parts, node)[:depth])


def _placed_on_any(play: Play, wanted: Mapping[str, int]) -> Iterator[Problem]:
    for job, pods in wanted.items():
        yield from _differ(job, sum(_nodes(play, job).values()), pods)


def _placed_roles(play: Play, wanted: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    for job, roles in wanted.items():
        for role, nodes in roles.items():
            found = dict(Counter(w.node for w in play.world.workers(job) if w.role == role))
            if found not in (nodes if isinstance(nodes, list) else [nodes]):
                yield f"{role} of {job} is on {found}, not {nodes}"


def _group_nodes(play: Play, wanted: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    for job, groups in wanted.items():
        for group, nodes in groups.items():
            found = Counter(w.node for w in play.world.workers(job) if w.role == group)
            right = dict(found) == nodes if isinstance(nodes, dict) else sorted(found) == sorted(nodes)
            if not right:
                yield f"group {group} of {job} is on {dict(found)}, not {nodes}"


def _pending(play: Play, wanted: Mapping[str, str]) -> Iterator[Problem]:
    codes = {wait.job_uid: str(wait.code) for wait in play.world.plan.waits}
    for job, code in wanted.items():
        record = play.world.jobs.get(job)
        found = codes.get(record.uid, str(record.phase)) if record else f"unknown ({play.rejected.get(job, '')})"
        if found != code:
            yield f"{job} is {found}, not {code}" + (f" [{_message(play, job)}]" if record else "")


def _message(play: Play, job: str) -> str:
    uid = play.world.jobs[job].uid if job in play.world.jobs else ""
    waits = [f"{wait.message} {wait.helps}" for wait in play.world.plan.waits if wait.job_uid == uid]
    return " ".join([*waits, *play.world.notes(job)])


def _why(play: Play, wanted: Mapping[str, str]) -> Iterator[Problem]:
    for job, text in wanted.items():
        found = _message(play, job)
        missing = missing_words(play, text, found)
        if missing:
            yield f"{job} is not told {', '.join(missing)} [{found}]"


def missing_words(play: Play, text: str, found: str) -> list[str]:
    """Every number and every name of a text that the other does not say."""
    said = Counter(_words(found))
    world = play.world
    names = {*world.index.nodes, *world.jobs, *world.index.queues}
    names |= {part for node in world.index.nodes.values() for part in path_of(node.labels, LEVELS) if part}
    return [
        word
        for word in dict.fromkeys(_words(text))
        if (re.fullmatch(r"\d+(\.\d+)?", word) or word in names) and not said[word]
    ]


def _words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z][\w-]*|\d+(?:\.\d+)?", text)


def _whatif(play: Play, wanted: list[Mapping[str, Any]]) -> Iterator[Problem]:
    for case in wanted:
        known("whatif", case, {"change", "result"})
        known("change", case["change"], CHANGE)
        index = _imagined(play, case["change"], case["result"])
        decided = plan(index, play.world.now)
        for job, result in case["result"].items():
            found = _outcome(play, decided, job)
            if found != result:
                yield f"with {case['change']} {job} would be {found}, not {result}"


def _outcome(play: Play, decided: Plan, job: str) -> object:
    uid = play.world.jobs[job].uid
    for group in decided.groups:
        if group.start.job_uid == uid:
            return dict(Counter(worker.node for worker in group.start.workers))
    return next((str(wait.code) for wait in decided.waits if wait.job_uid == uid), _nodes(play, job))


def _imagined(play: Play, change: Mapping[str, Any], result: Mapping[str, Any]) -> ClusterIndex:
    """The index as it would be; the world itself is not touched."""
    index, records = play.world.index, list[Record]()
    for job in result if "manifest" in change else ():
        fields = {**play.fields[job], **change["manifest"]}
        records.append(replace(play.world.jobs[job], spec=job_of(fields, play.stage).spec))
    for queue, value in (change.get("quota") or {}).items():
        record = index.queues[queue]
        records.append(replace(record, spec={**record.spec, "quota": quota_spec(value, play.stage.kinds)}))
    for job, node in (change.get("migrate") or {}).items():
        free = [device.index for device in index.free_devices(node)]
        for worker in play.world.workers(job):
            taken, free = tuple(free[: len(worker.devices)]), free[len(worker.devices) :]
            records.append(replace(worker, node=node, devices=taken))
    nodes: dict[str, Any] = {}
    for path, members in (change.get("nodes") or {}).items():
        for name, units in members.items():
            add_node(nodes, path, name, units, play.stage.unit, play.part)
    records += nodes.values()
    records += [replace(index.nodes[name], cordoned=True) for name in change.get("drain") or ()]
    return apply(index, [_change(index.revision + 1, record) for record in records])


def _change(revision: int, record: Record) -> Change:
    kind = type(record).__name__.removesuffix("Record")
    return Change(revision=revision, kind=kind, uid=record.uid, record=replace(record, revision=10**12 + revision))


def _by_queue(play: Play, wanted: Mapping[str, int]) -> Iterator[Problem]:
    for queue, units in wanted.items():
        mine = [job for job in play.world.jobs.values() if _queue(job) == queue]
        yield from _differ(queue, sum(play.world.charged(job.name) for job in mine), units)


def _queue(job: JobRecord) -> str:
    return str(job.spec.get("queue", "default"))


def _minutes(found: list[float]) -> list[float]:
    return [round(time / 60, 6) for time in found]


def _times(of: Callable[[Play], dict[str, list[float]]]) -> Callable[[Play, Any], Iterator[Problem]]:
    def check(play: Play, wanted: Mapping[str, Any]) -> Iterator[Problem]:
        for job, at in wanted.items():
            found = of(play).get(job, [])
            if seconds(at) not in [round(time, 6) for time in found]:
                yield f"{job}: {_minutes(found)} min, not {at}"

    return check


def _reservation(play: Play, wanted: Mapping[str, Any]) -> Iterator[Problem]:
    known_ones = {one.job_uid: one.at for one in play.world.plan.reservations}
    for job, at in wanted.items():
        found = known_ones.get(play.world.jobs[job].uid)
        if found is None or abs(found - seconds(at)) > 1e-6:
            yield f"{job} is dated {None if found is None else found / 60} min, not {at}"


def _reserved(play: Play, wanted: Mapping[str, list[str]]) -> Iterator[Problem]:
    for job, nodes in wanted.items():
        claim = play.world.jobs[job].claim
        kept = list(claim.nodes) if claim else play.world.held_for(job)
        yield from _differ(job, sorted(kept), sorted(nodes))


def _per_domain(play: Play, wanted: Mapping[str, Mapping[str, int]]) -> Iterator[Problem]:
    for job, domains in wanted.items():
        depth = max(domain.count("/") + 1 for domain in domains)
        found: Counter[str] = Counter()
        for node, pods in _nodes(play, job).items():
            found[_path(play, node, depth)] += pods
        yield from _differ(job, dict(found), domains)


def _ranks(play: Play, wanted: Mapping[str, str]) -> Iterator[Problem]:
    for job, text in wanted.items():
        workers = play.world.workers(job)
        found = re.findall(r"ranks (\d+)-(\d+) share one (\w+)", text)
        if not found:
            raise UnknownKey(f"ranks: cannot read {text!r}")
        for first, last, level in found:
            depth = (*LEVELS, "node").index(level) + 1
            domains = {_path(play, worker.node, depth) for worker in workers[int(first) : int(last) + 1]}
            if len(domains) != 1 or len(workers) <= int(last):
                yield f"ranks {first}-{last} of {job} are in {sorted(domains)}"


def _device_domain(play: Play, wanted: Mapping[str, str]) -> Iterator[Problem]:
    for job, place in wanted.items():
        found = set()
        for worker in play.world.workers(job):
            node = play.world.index.nodes[worker.node]
            groups = {device.group for device in node.devices if device.index in worker.devices}
            found |= {f"{node.name}.{node.labels[f'muster.dev/domain-{group}']}" for group in groups}
        yield from _differ(job, sorted(found), [place])


def _devices(attribute: str) -> Callable[[Play, Any], Iterator[Problem]]:
    def check(play: Play, wanted: Mapping[str, Mapping[str, list[int]]]) -> Iterator[Problem]:
        for job, nodes in wanted.items():
            found: dict[str, list[int]] = {}
            for worker in play.world.workers(job):
                known_devices = play.world.index.nodes[worker.node].devices
                mine = [getattr(device, attribute) for device in known_devices if device.index in worker.devices]
                found[worker.node] = sorted([*found.get(worker.node, []), *mine])
            yield from _differ(job, found, {node: sorted(ids) for node, ids in nodes.items()})

    return check


def _held(play: Play, wanted: Mapping[str, int]) -> Iterator[Problem]:
    for job, units in wanted.items():
        yield from _differ(job, sum(len(worker.devices) for worker in play.world.workers(job)), units)


def _charged(play: Play, wanted: Mapping[str, int]) -> Iterator[Problem]:
    for job, units in wanted.items():
        yield from _differ(job, play.world.charged(job), units)


def _alert(play: Play, wanted: object) -> Iterator[Problem]:
    found = list(play.world.plan.alerts)
    for text in wanted if isinstance(wanted, list) else [wanted]:
        if not any(not missing_words(play, str(text), alert) and _alike(str(text), alert) for alert in found):
            yield f"{text!r} is not among {found}"


def _alike(text: str, alert: str) -> bool:
    return set(_words(text)) <= set(_words(alert))


def _holders(play: Play, wanted: Mapping[str, list[str]]) -> Iterator[Problem]:
    for node, jobs in wanted.items():
        uids = {worker.job_uid for worker in play.world.index.workers.get(node, {}).values()}
        yield from _differ(node, sorted(j.name for j in play.world.jobs.values() if j.uid in uids), sorted(jobs))


def _node_state(play: Play, wanted: Mapping[str, str]) -> Iterator[Problem]:
    for node, state in wanted.items():
        record = play.world.index.nodes[node]
        found = "CORDONED" if record.cordoned and record.phase is NodePhase.READY else str(record.phase).upper()
        yield from _differ(node, found, str(state).upper())


def _capacity(play: Play, wanted: Mapping[str, int]) -> Iterator[Problem]:
    for node, units in wanted.items():
        record = play.world.index.nodes[node]
        yield from _differ(node, 0 if record.phase is NodePhase.LOST else len(record.devices), units)


def _restarts(play: Play, wanted: Mapping[str, int]) -> Iterator[Problem]:
    for job, number in wanted.items():
        yield from _differ(job, play.world.jobs[job].restarts, number)


def _zombies(play: Play, wanted: Mapping[str, Any]) -> Iterator[Problem]:
    for node, who in wanted.items():
        for one in who if isinstance(who, list) else [who]:
            if one not in play.zombies.get(node, []):
                yield f"{one} on {node} was not told to stop"


def _job_state(play: Play, wanted: Mapping[str, str]) -> Iterator[Problem]:
    for job, text in wanted.items():
        found = play.state(job)
        first, said = re.findall(r"\w+", text)[0], re.findall(r"\w+", found)
        if first not in said or missing_words(
            play, text.replace("s,", ",").replace("s)", ")"), re.sub(r"(\d)s\b", r"\1", found)
        ):
            yield f"{job} is {found!r}, not {text!r}"


def _rejected(play: Play, wanted: Mapping[str, str]) -> Iterator[Problem]:
    for job, code in wanted.items():
        yield from _differ(job, play.rejected.get(job, "accepted"), code)


def _warned(play: Play, wanted: Mapping[str, str]) -> Iterator[Problem]:
    for job, text in wanted.items():
        found = play.warnings.get(job, "")
        if missing := missing_words(play, text, found):
            yield f"{job} is not warned of {', '.join(missing)} [{found}]"


def _running_jobs(play: Play, wanted: list[str]) -> Iterator[Problem]:
    for job in wanted:
        if not play.world.running(job):
            yield f"{job} does not run ({play.state(job) if job in play.world.jobs else 'unknown'})"


_CHECKS: dict[str, Callable[[Play, Any], Iterator[Problem]]] = {
    "placed": _placed,
    "placed_in": _placed_in,
    "placed_on_any": _placed_on_any,
    "placed_roles": _placed_roles,
    "group_nodes": _group_nodes,
    "pending": _pending,
    "why": _why,
    "whatif": _whatif,
    "evictions": lambda play, wanted: _differ("the number", len(play.world.tally.evicted), wanted),
    "evicted": lambda play, wanted: _differ("the list", sorted(play.world.tally.evicted), sorted(wanted)),
    "migrations": lambda play, wanted: _differ("the number", play.world.tally.migrations, wanted),
    "shrunk_pods": lambda play, wanted: _differ("the number", play.world.tally.shrunk, wanted),
    "moved_healthy": lambda play, wanted: _differ("the list", sorted(play.world.tally.moved), sorted(wanted)),
    "used": _by_queue,
    "charged": _charged,
    "held": _held,
    "reserved": _reserved,
    "reservation": _reservation,
    "started": _times(lambda play: play.world.tally.started),
    "stopped": _times(lambda play: play.world.tally.stopped),
    "rejected": _rejected,
    "per_domain": _per_domain,
    "ranks": _ranks,
    "device_domain": _device_domain,
    "devices": _devices("index"),
    "nics": _devices("nic"),
    "alert": _alert,
    "node_holders": _holders,
    "node_state": _node_state,
    "capacity_counted": _capacity,
    "restarts": _restarts,
    "zombie_killed": _zombies,
    "job_state": _job_state,
    "running_jobs": _running_jobs,
    "cycles": lambda play, wanted: _differ("the number", play.world.tally.cycles, wanted),
    "warned": _warned,
}
