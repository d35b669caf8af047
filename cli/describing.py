"""All about one job, node or queue, as text. Pure: objects of the API in, lines out."""

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from cli.columns import (
    accelerators,
    accuracy,
    amounts,
    devices,
    memory,
    node_phase,
    nodes_of,
    queue_jobs,
    span_state,
    who,
)
from cli.output import Column, age, clean, table, until
from cli.timeline import clock, fact, ranges, timeline

Object = dict[str, Any]
Facts = list[tuple[str, str]]
LABEL = 14


def job(one: Object, attempts: Sequence[Object], events: Sequence[Object], *, width: int, now: float) -> str:
    """Spec, status, attempts as a timeline, events."""
    lines = _lines(_identity(one, now) + _status(one, now) + _program(one["spec"]), width)
    if attempts:
        lines += ["", "Attempts:", timeline(attempts, width=width, now=now)]
    if events:
        lines += ["", "Events:", *_events(events, width=width, now=now)]
    return "\n".join(lines)


def node(one: Object, events: Sequence[Object], repairs: Sequence[Object] = (), *, width: int, now: float) -> str:
    """What it has, who uses it, what happened to it."""
    status = one["status"]
    facts = [
        *_identity(one, now),
        ("Phase", f"{node_phase(one)} for {age(status.get('phaseSince'), now)}"),
        ("Message", status.get("message") or ""),
        ("Cordoned by", _cordon(one["spec"], now)),
        ("Drain", _drain(one["spec"].get("drain"), now)),
        ("Last renewal", f"{age(status.get('lastRenewal'), now)} ago" if status.get("lastRenewal") else ""),
        ("Address", " on ".join(filter(None, [status.get("address"), status.get("host")]))),
        ("Boot id", status.get("bootId") or ""),
        ("Agent", status.get("agentVersion") or ""),
        ("Taints", ", ".join(_taint(each) for each in one["spec"].get("taints") or ())),
        ("CPU, memory", f"{status.get('cpu')} cores, {memory(one)}"),
        ("Devices", devices(one) or "none"),
        *(("Not found out", text) for text in status.get("problems") or ()),
    ]
    lines = _lines(facts, width)
    if conditions := status.get("conditions"):
        lines += ["", "Conditions:", *_conditions(conditions, width=width, now=now)]
    if repairs:
        lines += ["", "Repairs:", *_repairs(repairs[-3:], width=width, now=now)]
    users = {held["device"]: held for held in status.get("allocated") or ()}
    rows = [{**device, "user": users.get(device["index"])} for device in status.get("devices") or ()]
    if rows:
        lines += ["", table(_DEVICE, rows, width=width)]
    if status.get("nics"):
        lines += ["", table(_NIC, status["nics"], width=width)]
    if events:
        lines += ["", "Events:", *_events(events, width=width, now=now)]
    return "\n".join(lines)


_DEVICE = (
    Column("  DEVICE", lambda one: f"  {one['index']}"),
    Column("TYPE", lambda one: one["type"]),
    Column("NUMA", lambda one: one.get("numa")),
    Column("HEALTH", lambda one: "ok" if one.get("healthy", True) else "; ".join(one.get("problems") or ("bad",))),
    Column("JOB", lambda one: f"{one['user']['namespace']}/{one['user']['job']}" if one["user"] else "", elastic=True),
)


_NIC = (
    Column("  NIC", lambda one: f"  {one['name']}"),
    Column("NETDEV", lambda one: one.get("netdev")),
    Column("LINK", lambda one: one.get("linkLayer")),
    Column("STATE", lambda one: one.get("state")),
    Column("GBIT/S", lambda one: f"{one['rateGbps']:g}" if one.get("rateGbps") else ""),
    Column("NUMA", lambda one: one.get("numa")),
    Column("RAIL", lambda one: one.get("rail")),
)


def _conditions(conditions: Sequence[Object], *, width: int, now: float) -> list[str]:
    """One line or more for each: how bad, since when, how often, what, and what would end it."""
    lines = []
    for one in sorted(conditions, key=lambda one: (one["severity"] not in ("fatal", "error"), one["since"] or "")):
        where = f"device {one['device']}" if one.get("device") is not None else one.get("subject") or "node"
        often = f", {one['count']} times" if one["count"] > 1 else ""
        remedy = f"; asks for {one['remedy']}" if one["remedy"] != "none" else ""
        begin = f"{'!' if one['severity'] in ('fatal', 'error') else ' '} {one['severity']:<7}  {where}: "
        text = f"{one['kind']} {one['reason']} for {age(one['since'], now)}{often}: {one['message']}{remedy}"
        lines += fact(begin, text, width=width, column=0)
    return lines


def _repairs(repairs: Sequence[Object], *, width: int, now: float) -> list[str]:
    """The newest ones, each with its history."""
    lines = []
    for one in repairs:
        mark = "  " if one["endedAt"] else "! "
        dry = " (dry run)" if one["dryRun"] else ""
        lines += fact(f"{mark}{one['phase']}{dry}: ", one["message"], width=width, column=0)
        for step in one["steps"]:
            lines += fact(f"    {clock(step['at'])}  {step['phase']:<9}  ", step["message"], width=width, column=0)
    return lines


def _cordon(spec: Object, now: float) -> str:
    return ": ".join(part for part in (spec.get("cordonedBy") or "", spec.get("cordonReason") or "") if part)


def _drain(drain: Object | None, now: float) -> str:
    if not drain:
        return ""
    how = "what runs is stopped" if drain["policy"] == "now" else "what runs may finish"
    why = f": {drain['reason']}" if drain.get("reason") else ""
    return f"by {drain['by']} for {age(drain['at'], now)}, {how}{why}"


def queue(one: Object, *, width: int, now: float) -> str:
    spec = one["spec"]
    facts = [
        *_identity(one, now),
        ("Parent", spec.get("parent") or ""),
        ("Weight", str(spec.get("weight", 1))),
        ("Discipline", spec.get("discipline") or "fair"),
        ("Quota", amounts(spec.get("quota"))),
        ("May borrow", amounts(spec.get("borrowLimit"))),
        ("Lends", amounts(spec.get("lendLimit"))),
        ("Min runtime", spec.get("minRuntime") or ""),
        *(("Warning", text) for text in one["status"].get("warnings") or ()),
        ("Stopped", "yes: accepts jobs and starts none" if spec.get("stopped") else "no"),
        ("Time limit", str(spec.get("defaultTimeLimit") or "none")),
        ("Jobs", queue_jobs(one) or "none"),
        ("ETA error", accuracy(one["status"].get("etaAccuracy"))),
    ]
    return "\n".join(_lines(facts, width))


def why(one: Object, *, width: int, now: float) -> str:
    """Why a job waits: the binding reason first, then the others, the numbers, what helps, when it starts."""
    metadata, status = one["metadata"], one["status"]
    code = status.get("code")
    facts: Facts = [
        ("Job", f"{metadata['namespace']}/{metadata['name']}"),
        ("Phase", status["phase"] + (f", queued {age(status['queuedAt'], now)} ago" if code else "")),
        ("Reason", f"{code}: {status['means']}" if code else ""),
        ("", f"for {age(status['since'], now)}" if status.get("since") else ""),
        ("Because" if code else "Message", status["message"]),
        *_listed("Also", [f"{other['code']}: {other['means']}" for other in status["others"]]),
        *_listed("Numbers", [f"{name} {number}" for name, number in status["numbers"].items()], joined=True),
        *_listed("Would help", status["helps"]),
        ("Starts", _eta(status.get("eta"), now) or ("not predicted yet" if _waits(status) else "")),
    ]
    return "\n".join(_lines(facts, width))


def policy(one: Object, *, width: int, now: float) -> str:
    """A priority class, reservation or maintenance window."""
    spec, status = one["spec"], one["status"]
    facts = [
        *_identity(one, now),
        ("Value", str(spec.get("value", ""))),
        ("Preempts", spec.get("preempts") or ""),
        ("Who", who(one) if one["kind"] != "MaintenanceWindow" else ""),
        ("Nodes", nodes_of(one)),
        (
            "Running jobs",
            {"wait": "end by themselves", "stop": "are stopped and queued again"}.get(spec.get("running"), ""),
        ),
        ("From", status.get("startsAt") or ""),
        ("To", status.get("endsAt") or ""),
        ("State", span_state(one, now) if status.get("startsAt") else ""),
        ("Description", spec.get("description") or ""),
    ]
    return "\n".join(_lines(facts, width))


def _waits(status: Object) -> bool:
    return status["phase"] in ("Queued", "Recovering")


def _listed(label: str, texts: Sequence[str], *, joined: bool = False) -> Facts:
    if joined:
        return [(label, ", ".join(texts))]
    return [(label if number == 0 else "", f"- {text}") for number, text in enumerate(texts)]


def _eta(eta: Object | None, now: float) -> str:
    """When, on what basis, and of what age that is."""
    if not eta:
        return ""
    place = f"; {eta['position']} of {eta['waiting']} in order"
    made = f" (revision {eta['revision']}, {eta['ageSeconds']:g}s old)"
    if eta.get("at") is None:
        return f"nobody can say: {eta['note'] or 'no basis'}{place}{made}"
    left = until(eta["at"], now)
    when = "in the next plan" if left == "now" else f"in {left}, {clock(eta['at'])} UTC"
    return f"{'not before: ' if eta['bound'] else ''}{when}, by {eta['basis']}{place}{made}"


def _identity(one: Object, now: float) -> Facts:
    metadata = one["metadata"]
    return [
        ("Name", metadata["name"]),
        ("Namespace", metadata.get("namespace") or ""),
        ("UID", metadata.get("uid") or ""),
        ("Labels", _pairs(metadata.get("labels"))),
        ("Annotations", _pairs(metadata.get("annotations"))),
        ("Created", _when(metadata.get("createdAt"), now)),
    ]


def _status(one: Object, now: float) -> Facts:
    status = one["status"]
    limit = (one["spec"].get("recovery") or {}).get("maxRestarts")
    return [
        ("Started", _when(status.get("startedAt"), now)),
        ("Finished", _when(status.get("finishedAt"), now)),
        ("Phase", status["phase"]),
        ("Reason", status.get("reason") or ""),
        ("Message", status.get("message") or ""),
        ("Starts", _eta(status.get("eta"), now)),
        *(("Warning", text) for text in status.get("warnings") or ()),
        ("After", ", ".join(_dependency(other) for other in status.get("dependencies") or ())),
        ("Elements", _elements(status.get("elements"))),
        ("Progress", _progress(status.get("progress"), now)),
        ("Restarts", f"{status.get('restarts', 0)}" + (f" of at most {limit}" if limit is not None else "")),
        ("Workers", ", ".join(_worker(worker) for worker in status.get("workers") or ())),
    ]


def _program(spec: Object) -> Facts:
    gang = f"{spec.get('workers', 1)} worker{'s' if spec.get('workers', 1) != 1 else ''}"
    if spec.get("minWorkers"):
        gang += f" (at least {spec['minWorkers']})"
    if spec.get("ranksPerWorker"):
        gang += f" with {spec['ranksPerWorker']} rank{'s' if spec['ranksPerWorker'] != 1 else ''} each"
    each = [accelerators(spec), f"{spec.get('cpu', '1')} CPU", f"{spec.get('memory', '?')} memory"]
    topology = [f"{word} {_short(value)}" for word, value in (spec.get("topology") or {}).items()]
    checkpoint = spec.get("checkpoint") or {}
    settings = ", ".join(
        f"{word} {checkpoint[name]}"
        for word, name in (("format", "format"), ("every", "every"), ("grace", "grace"))
        if checkpoint.get(name)
    )
    script = str(spec.get("script") or "").strip()
    return [
        ("Queue", f"{spec.get('queue', 'default')}, priority {spec.get('priorityClass', 'normal')}"),
        ("Gang", f"{gang}, framework {spec.get('framework', 'command')}"),
        ("Each worker", ", ".join(part for part in each if part)),
        *(("Role", _role(role)) for role in spec.get("roles") or ()),
        ("Topology", ", ".join(topology)),
        ("Nodes", _nodes(spec)),
        ("Workdir", spec.get("workdir") or ""),
        ("Command", shlex.join(spec["command"]) if spec.get("command") else ""),
        ("Script", script.partition("\n")[0] + (" …" if "\n" in script else "")),
        ("Environment", _pairs(spec.get("env"))),
        ("Checkpoints", checkpoint.get("directory") or ""),
        ("", settings),
        ("Time limit", spec.get("timeLimit") or ""),
    ]


def _short(value: Any) -> str:
    return f"of {value['size']} in one {value['level']}" if isinstance(value, dict) else str(value)


def _role(role: Object) -> str:
    """`learner: 2 workers with 8 x h100, the head`."""
    count = role.get("workers", 1)
    held = f" with {accelerators(role)}" if role.get("accelerators") else ""
    level = (role.get("topology") or {}).get("required")
    where = f", in one {level}" if level else ""
    head = ", the head" if role.get("head") else ""
    return f"{role['name']}: {count} worker{'s' if count != 1 else ''}{held}{where}{head}"


def _nodes(spec: Object) -> str:
    """Which nodes the manifest allows."""
    nodes = spec.get("nodes") or {}
    labels = ", ".join(f"{key}={value}" for key, value in (spec.get("nodeSelector") or {}).items())
    only, never = (", ".join(nodes.get(word) or ()) for word in ("include", "exclude"))
    parts = [labels and f"with {labels}", only and f"only {only}", never and f"never {never}"]
    return "; ".join(part for part in parts if part)


def _taint(one: Object) -> str:
    return f"{one['key']}={one['value']}" if one.get("value") else str(one["key"])


def _dependency(one: Object) -> str:
    state = "met" if one["met"] else one["phase"] or "not there yet"
    return f"{one['job']} {one['condition']} ({state})"


def _elements(one: Object | None) -> str:
    if not one:
        return ""
    phases = ", ".join(f"{count} {phase}" for phase, count in one["phases"].items())
    return f"{one['total']}, {one['made']} made" + (f": {phases}" if phases else "")


def _lines(facts: Iterable[tuple[str, str]], width: int) -> list[str]:
    lines: list[str] = []
    for label, text in facts:
        if text:
            lines += fact(f"{label}:" if label else "", text, width=width, column=LABEL)
    return lines


def _events(events: Sequence[Object], *, width: int, now: float) -> list[str]:
    """One line or more for each: when, what, and in whole the words. Repeats are told once."""
    lines = []
    reasons = min(max(len(event["reason"]) for event in events), 20)
    for event in events:
        mark = "!" if event["level"] == "warning" else " "
        begin = f"{mark} {clock(event.get('at'))}  {clean(event['reason']):<{reasons}}  "
        lines += fact(begin, event["message"], width=width, column=0) or [begin.rstrip()]
    return lines


def _when(text: str | None, now: float) -> str:
    return f"{text[:10]} {clock(text)} UTC ({age(text, now)} ago)" if text else ""


def _progress(progress: Object | None, now: float) -> str:
    if not progress:
        return ""
    loss = f", loss {progress['loss']:.6g}" if progress.get("loss") is not None else ""
    at = f" ({age(progress['at'], now)} ago)" if progress.get("at") else ""
    return f"step {progress['step']}{loss}{at}"


def _worker(worker: Object) -> str:
    where = f"{worker['role']}-{worker['index']} on {worker['node']}"
    held = ranges(worker.get("devices") or ())
    return where + (f" [{held}]" if held else "") + f" {worker['phase']}"


def _pairs(values: Object | None) -> str:
    return ", ".join(f"{name}={text}" for name, text in (values or {}).items())
