"""The columns of each kind of thing."""

import os
from collections import Counter
from typing import Any, Final

from cli.output import Column, age, moment, size, span, until
from muster.clock import from_iso

Object = dict[str, Any]
NAMESPACE: Final = Column("NAMESPACE", lambda one: one["metadata"].get("namespace"))


def columns_of(kind: str, at: float) -> list[Column]:
    """All columns of a kind, the wide ones too. `at` is now, for ages."""
    return _MADE[kind](at)


def _jobs(at: float) -> list[Column]:
    return [
        Column("NAME", _name),
        Column("PHASE", lambda one: one["status"]["phase"], painted=True),
        Column("RESTARTS", lambda one: one["status"].get("restarts", 0)),
        Column("STEP", lambda one: (one["status"].get("progress") or {}).get("step")),
        Column("LOSS", lambda one: _number((one["status"].get("progress") or {}).get("loss")), wide=True),
        Column("QUEUE", lambda one: one["spec"].get("queue"), wide=True),
        Column("WORKERS", lambda one: one["spec"].get("workers", 1), wide=True),
        Column("DEVICES", lambda one: accelerators(one["spec"]), wide=True),
        Column("NODES", lambda one: _listed(worker["node"] for worker in one["status"].get("workers", ())), wide=True),
        Column("REASON", lambda one: one["status"].get("reason")),
        Column("ETA", lambda one: eta(one["status"], at)),
        Column("AGE", lambda one: age(one["metadata"].get("createdAt"), at)),
        Column("MESSAGE", lambda one: one["status"].get("message"), elastic=True),
    ]


def _nodes(at: float) -> list[Column]:
    return [
        Column("NAME", _name),
        Column("PHASE", node_phase, painted=True),
        Column("DEVICES", devices),
        Column("IN USE", lambda one: len(one["status"].get("allocated", ()))),
        Column("LEAF", lambda one: one["metadata"].get("labels", {}).get("muster.dev/leaf")),
        Column("CPU", lambda one: one["status"].get("cpu"), wide=True),
        Column("MEMORY", memory, wide=True),
        Column("ADDRESS", lambda one: one["status"].get("address"), wide=True),
        Column("VERSION", lambda one: one["status"].get("agentVersion"), wide=True),
        Column("SINCE", lambda one: age(one["status"].get("phaseSince"), at)),
        Column(
            "JOBS",
            lambda one: _listed(held.get("job", "") for held in one["status"].get("allocated", ())),
            elastic=True,
        ),
    ]


def _queues(at: float) -> list[Column]:
    return [
        Column("NAME", _name),
        Column("PARENT", lambda one: one["spec"].get("parent")),
        Column("WEIGHT", lambda one: one["spec"].get("weight", 1)),
        Column("QUOTA", lambda one: amounts(one["spec"].get("quota"))),
        Column("STOPPED", lambda one: "yes" if one["spec"].get("stopped") else "no"),
        Column("TIME LIMIT", lambda one: one["spec"].get("defaultTimeLimit"), wide=True),
        Column("ETA ERROR", lambda one: accuracy(one["status"].get("etaAccuracy")), wide=True),
        Column("AGE", lambda one: age(one["metadata"].get("createdAt"), at)),
        Column("JOBS", queue_jobs, elastic=True),
    ]


def _claims(at: float) -> list[Column]:
    return [
        Column("OWNER", lambda one: one["status"]["owner"]),
        Column("PRIORITY", lambda one: one["status"]["priority"]),
        Column("VACATED", lambda one: f"{len(one['status']['vacated'])}/{len(one['status']['nodes'])}"),
        Column("DEADLINE", lambda one: until(one["status"].get("deadline"), at)),
        Column("AGE", lambda one: age(one["status"].get("madeAt"), at)),
        Column("WAITS FOR", lambda one: _listed(left["job"] for left in one["status"]["leaving"])),
        Column("NODES", lambda one: _listed(one["status"]["nodes"]), elastic=True),
    ]


def _priority_classes(at: float) -> list[Column]:
    return [
        Column("NAME", _name),
        Column("VALUE", lambda one: one["spec"]["value"]),
        Column("PREEMPTS", lambda one: one["spec"].get("preempts")),
        Column("AGE", lambda one: age(one["metadata"].get("createdAt"), at)),
        Column("WHO", who, elastic=True),
    ]


def _reservations(at: float) -> list[Column]:
    return [Column("NAME", _name), *_span(at), Column("WHO", who), Column("NODES", nodes_of, elastic=True)]


def _windows(at: float) -> list[Column]:
    running = Column("RUNNING", lambda one: one["spec"].get("running"))
    return [Column("NAME", _name), *_span(at), running, Column("NODES", nodes_of, elastic=True)]


def _span(at: float) -> list[Column]:
    return [
        Column("STATE", lambda one: span_state(one, at), painted=True),
        Column("START", lambda one: _minute(one["status"].get("startsAt"))),
        Column("END", lambda one: _minute(one["status"].get("endsAt"))),
    ]


def _events(at: float) -> list[Column]:
    return [
        Column("AGE", lambda one: age(one.get("at"), at)),
        Column("LEVEL", lambda one: one.get("level"), painted=True),
        Column("OBJECT", lambda one: f"{one['object']['kind'].lower()}/{one['object']['name']}"),
        Column("REASON", lambda one: one.get("reason")),
        Column("MESSAGE", lambda one: one.get("message"), elastic=True),
    ]


def _attempts(at: float) -> list[Column]:
    return [
        Column("ATTEMPT", lambda one: one["number"]),
        Column("EPOCH", lambda one: one["epoch"]),
        Column("PHASE", lambda one: one["phase"], painted=True),
        Column("REASON", lambda one: one.get("reason")),
        Column("FROM STEP", lambda one: (one.get("resume") or {}).get("step")),
        Column("STEP", lambda one: one.get("lastStep")),
        Column("LOSS", lambda one: _number(one.get("loss")), wide=True),
        Column("CHECKPOINT", lambda one: checkpoint_name(one["resume"]) if one.get("resume") else "", wide=True),
        Column("UID", lambda one: one["uid"], wide=True),
        Column("AGE", lambda one: age(one["timeline"].get("placedAt"), at)),
        Column("NODES", lambda one: _listed(worker["node"] for worker in one.get("workers", ())), elastic=True),
    ]


def _checkpoints(at: float) -> list[Column]:
    return [
        Column("NAME", checkpoint_name),
        Column("STEP", lambda one: one["step"]),
        Column("FORMAT", lambda one: one["format"]),
        Column("COMPLETE", lambda one: "yes" if one["complete"] else "no", painted=True),
        Column("SIZE", lambda one: size(one.get("size"))),
        Column("EPOCH", lambda one: one.get("epoch"), wide=True),
        Column("PATH", lambda one: one["path"], wide=True),
        Column("AGE", lambda one: age(one.get("createdAt"), at)),
        Column("WHY NOT", lambda one: one.get("why"), elastic=True),
    ]


_MADE: Final = {
    "Job": _jobs,
    "Node": _nodes,
    "Queue": _queues,
    "Claim": _claims,
    "PriorityClass": _priority_classes,
    "Reservation": _reservations,
    "MaintenanceWindow": _windows,
    "Event": _events,
    "Attempt": _attempts,
    "Checkpoint": _checkpoints,
}


def _name(one: Object) -> str:
    return str(one["metadata"]["name"])


def eta(status: Object, at: float) -> str:
    """Time until a waiting job starts: `5m`, `now`, `>2h` for a bound, `?` where nobody can say."""
    if status["phase"] not in ("Queued", "Recovering"):
        return ""
    found = status.get("eta") or {}
    if moment(found.get("at")) is None:
        return "?"
    left = until(found["at"], at)
    return f">{left}" if found.get("bound") and left != "now" else left


def accuracy(found: Object | None) -> str:
    """`P50 12s, P90 3m over 840 starts`."""
    if not found or not found.get("starts"):
        return ""
    p50, p90 = span(found["p50ErrorSeconds"]), span(found["p90ErrorSeconds"])
    starts = found["starts"]
    return f"P50 {p50}, P90 {p90} over {'the last ' if starts >= 1000 else ''}{starts} start{'s' * (starts != 1)}"


def accelerators(spec: Object) -> str:
    """`2 x h100 or 2 x a100`, of each worker."""
    return " or ".join(f"{one['count']} x {one['type']}" for one in spec.get("accelerators") or ())


def node_phase(one: Object) -> str:
    marks = [",OnHold"] if one["status"].get("held") else []
    return "".join(
        [
            str(one["status"]["phase"]),
            *marks,
            *([",Cordoned"] if one["spec"].get("cordoned") else []),
            *([",Draining"] if one["spec"].get("drain") else []),
        ]
    )


def devices(one: Object) -> str:
    """`8 x h100`, with what is not healthy: `8 x h100 (1 bad)`."""
    found = one["status"].get("devices") or ()
    text = ", ".join(f"{count} x {kind}" for kind, count in Counter(each["type"] for each in found).items())
    bad = sum(not each.get("healthy", True) for each in found)
    return f"{text} ({bad} bad)" if bad else text


def memory(one: Object) -> str:
    """Of a node, rounded for people."""
    from muster.quantity import parse_memory

    try:
        return size(parse_memory(one["status"].get("memory") or "0"))
    except ValueError:
        return str(one["status"]["memory"])


def amounts(given: Object | None) -> str:
    """`8 h100, 4 a100`."""
    return ", ".join(f"{count} {kind}" for kind, count in (given or {}).items())


def queue_jobs(one: Object) -> str:
    jobs = one.get("status", {}).get("jobs", {})
    return ", ".join(f"{count} {phase}" for phase, count in jobs.items() if count)


def who(one: Object) -> str:
    """`namespaces a, b; users c`; everybody where nobody is named."""
    named = one["spec"].get("who") or {}
    return "; ".join(f"{what} {', '.join(names)}" for what, names in named.items() if names) or "everybody"


def nodes_of(one: Object) -> str:
    """Which nodes a reservation or a window is about."""
    spec = one["spec"]
    parts = [
        ",".join(spec.get("nodes") or ()),
        ",".join(f"{k}={v}" for k, v in (spec.get("nodeSelector") or {}).items()),
    ]
    if spec.get("size"):
        kind = f" of {spec['accelerator']}" if spec.get("accelerator") else ""
        parts.append(f"{spec['size']}{kind}" + (f" in one {spec['level']}" if spec.get("level") else ""))
    return " ".join(filter(None, parts))


def span_state(one: Object, at: float) -> str:
    """`Ahead`, `Now` or `Over`."""
    starts, ends = (from_iso(one["status"][word]) for word in ("startsAt", "endsAt"))
    return "Ahead" if at < starts else "Now" if at < ends else "Over"


def _minute(text: str | None) -> str:
    return f"{text[:10]} {text[11:16]}" if text else ""


def checkpoint_name(one: Object) -> str:
    return os.path.basename(str(one["path"]).rstrip("/"))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _listed(words: Any) -> str:
    return ",".join(dict.fromkeys(word for word in words if word))
