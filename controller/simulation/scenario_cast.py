"""From the notation of a scenario to records: nodes, queues, jobs."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from controller.records import JobRecord, MaintenanceWindowRecord, NodeRecord, QueueRecord, ReservationRecord
from controller.simulation.scenario_keys import (
    ASIDE,
    FLAVOUR,
    GROUP,
    JOB,
    POLICY,
    QUEUE,
    ROLE,
    SEGMENT,
    UnknownKey,
    known,
    seconds,
)
from controller.simulation.world import Habits, node_of, queue_of
from muster.accelerators import accelerator
from muster.protocol import Device

LEVELS = ("block", "rack")
MUCH_CPU, MUCH_MEMORY = 10**9, 2**44
UNLIMITED = 1024
LABEL = "muster.dev/"


class Stage(Struct, frozen=True):
    """The cluster of one part before anything happens."""

    nodes: tuple[NodeRecord, ...]
    queues: tuple[QueueRecord, ...]
    aside: tuple[ReservationRecord | MaintenanceWindowRecord, ...]
    kinds: tuple[str, ...]
    unit: str
    selectors: Mapping[str, tuple[str, str]]


def stage_of(part: Mapping[str, Any]) -> Stage:
    unit = str(part.get("unit", "gpu"))
    flavours = part.get("flavours") or {}
    for name, flavour in flavours.items():
        known(f"flavour {name}", flavour, FLAVOUR)
    homes = {node: name for name, flavour in flavours.items() for node in flavour.get("nodes") or ()}
    nodes: dict[str, NodeRecord] = {}
    for path, members in (part.get("racks") or {}).items():
        for name, units in members.items():
            add_node(nodes, path, name, units, homes.get(name, unit), part)
    for path, number in (part.get("nvl") or {}).items():
        rack = path.rpartition("/")[2]
        for index in range(number):
            add_node(nodes, path, f"{rack}-{index:02}", 1, homes.get(f"{rack}-{index:02}", unit), part)
    override = part.get("override") or {}
    for name, devices in (part.get("devices") or {}).items():
        nodes[name] = _with_devices(name, {**devices, **override.get(name, {})}, part)
    if not nodes:
        raise UnknownKey("a part without racks, nvl or devices has no cluster")
    kinds = tuple(sorted({device.type for node in nodes.values() for device in node.devices} | set(flavours)))
    return Stage(tuple(nodes.values()), _queues(part, kinds), tuple(_aside(part)), kinds, unit, _selectors(nodes))


def _aside(part: Mapping[str, Any]) -> Iterator[ReservationRecord | MaintenanceWindowRecord]:
    """Nodes that are for some, or for nobody, from one time until another."""
    for name, fields in (part.get("reservations") or {}).items():
        known(f"reservation {name}", fields, ASIDE)
        spec = {key: fields[key] for key in ("nodes", "size", "level") if key in fields}
        spec |= {"accelerator": fields["kind"]} if "kind" in fields else {}
        who = {key: fields[key] for key in ("queues", "users") if key in fields}
        begins, ends = _span(fields)
        yield ReservationRecord(
            name=name, uid=f"reservation-{name}", spec={**spec, "who": who}, starts_at=begins, ends_at=ends
        )
    for name, fields in (part.get("maintenance") or {}).items():
        known(f"maintenance {name}", fields, ASIDE)
        spec = {"nodes": fields["nodes"], "running": "stop" if fields.get("stop") else "wait"}
        begins, ends = _span(fields)
        yield MaintenanceWindowRecord(name=name, uid=f"window-{name}", spec=spec, starts_at=begins, ends_at=ends)


def _span(fields: Mapping[str, Any]) -> tuple[float, float]:
    return seconds(fields.get("from", 0)), seconds(fields["until"])


def add_node(
    nodes: dict[str, NodeRecord], path: str, name: str, units: int, kind: str, part: Mapping[str, Any]
) -> None:
    """A node of so many units in `block/rack`; an empty part or `-` of the path leaves that label out."""
    block, _, rack = path.partition("/")
    labels = {LABEL + level: value for level, value in zip(LEVELS, (block, rack), strict=True) if value.strip("-?")}
    devices = tuple(Device(index=index, type=kind, virtual=True) for index in range(units))
    nodes[name] = node_of(name, labels=labels, devices=devices, cpu_milli=_cpu(name, part), memory=MUCH_MEMORY)


def _cpu(name: str, part: Mapping[str, Any]) -> int:
    """A limit of pods is held by CPU: each pod needs one."""
    limit = (part.get("max_pods") or {}).get(name)
    return MUCH_CPU if limit is None else int(limit) * 1000


def _with_devices(name: str, spec: Mapping[str, Any], part: Mapping[str, Any]) -> NodeRecord:
    kind, granularity = str(spec["kind"]), int(spec.get("granularity", 1))
    paired = spec.get("nic_of_gpu") == "same_index"
    devices, group, domains = [], 0, {}
    for key, indexes in spec.items():
        if key in ("kind", "nic_of_gpu", "granularity"):
            continue
        if not isinstance(indexes, list):
            raise UnknownKey(f"unknown key {key!r} in devices of {name}")
        domains[f"{LABEL}domain-{group}"] = key
        devices += [
            Device(
                index=index,
                type=kind,
                group=group,
                card=index // granularity if granularity > 1 else None,
                nic=index if paired else None,
                virtual=True,
            )
            for index in indexes
        ]
        group += 1
    ordered = tuple(sorted(devices, key=lambda device: device.index))
    return node_of(name, labels=domains, devices=ordered, cpu_milli=_cpu(name, part), memory=MUCH_MEMORY)


def _queues(part: Mapping[str, Any], kinds: tuple[str, ...]) -> tuple[QueueRecord, ...]:
    specs: dict[str, dict[str, Any]] = {}
    for name, queue in (part.get("queues") or {}).items():
        known(f"queue {name}", queue or {}, QUEUE)
        specs[str(name)] = _queue(queue or {}, kinds)
    flavours = part.get("flavours") or {}
    if flavours:
        quota = {name: flavour["quota"] for name, flavour in flavours.items() if "quota" in flavour}
        target = next(iter(specs.values())) if len(specs) == 1 else specs.setdefault("default", {})
        target.setdefault("quota", quota)
        policy = part.get("flavour_policy") or {}
        known("flavour_policy", policy, POLICY)
        for spec in specs.values():
            spec.setdefault("kinds", "manifest")
    for name, minutes in (part.get("min_runtime") or {}).items():
        specs.setdefault(str(name), {})["minRuntime"] = f"{seconds(minutes):g}s"
    if part.get("consolidation"):
        specs.setdefault("default", {})
        for spec in specs.values():
            spec["consolidation"] = True
    return tuple(queue_of(name, **spec) for name, spec in specs.items())


def _queue(queue: Mapping[str, Any], kinds: tuple[str, ...]) -> dict[str, Any]:
    spec: dict[str, Any] = {}

    def amounts(*keys: str) -> dict[str, int] | None:
        found = next((queue[key] for key in keys if key in queue), None)
        if found is None:
            return None
        return {str(kind): n for kind, n in found.items()} if isinstance(found, dict) else dict.fromkeys(kinds, found)

    for name, keys in (
        ("quota", ("quota", "nominal")),
        ("borrowLimit", ("borrow_limit", "borrowing_limit", "borrow")),
        ("lendLimit", ("lend_limit", "lending_limit", "lend")),
        ("userLimit", ("user_limit",)),
    ):
        if (found := amounts(*keys)) is not None:
            spec[name] = found
    for name, key in (("parent", "parent"), ("weight", "weight"), ("discipline", "discipline"), ("kinds", "kinds")):
        if key in queue:
            spec[name] = queue[key]
    if "usage_half_life" in queue:
        spec["usageHalfLife"] = f"{seconds(queue['usage_half_life']):g}s"
    if "min_runtime" in queue:
        spec["minRuntime"] = f"{seconds(queue['min_runtime']):g}s"
    return spec


def quota_spec(value: object, kinds: tuple[str, ...]) -> dict[str, int]:
    return dict(value) if isinstance(value, dict) else dict.fromkeys(kinds, int(str(value)))


def _selectors(nodes: Mapping[str, NodeRecord]) -> dict[str, tuple[str, str]]:
    """What a node selector may name: a block, a rack, its path."""
    found = {}
    for node in nodes.values():
        for level in LEVELS:
            value = node.labels.get(LABEL + level)
            if value:
                found[value] = (LABEL + level, value)
        path = "/".join(node.labels.get(LABEL + level, "") for level in LEVELS)
        if node.labels.get(LABEL + "rack"):
            found[path] = (LABEL + "rack", node.labels[LABEL + "rack"])
    return found


def job_of(fields: Mapping[str, Any], stage: Stage) -> JobRecord:
    """The record of a job in the notation; it lives in namespace default."""
    name = str(fields.get("job"))
    known(f"job {name}", fields, JOB)
    elastic = fields.get("elastic") or {}
    pods = _positive(name, "pods", elastic.get("max", fields.get("pods", 1)))
    per_pod = _positive(name, "per_pod", fields.get("per_pod", 1), least=0)
    spec: dict[str, Any] = {
        "queue": fields.get("queue", "default"),
        "priority": int(fields.get("prio", 0)),
        "workers": pods,
        "maxPerNode": int(fields.get("max_per_node", UNLIMITED)),
        "accelerators": [{"type": kind, "count": number} for kind, number in _kinds(fields, stage, per_pod)],
        "cpu": "1",
        "memory": "1Mi",
        "topology": _topology(fields),
        "preemption": {"allowed": fields.get("preemptible", True), "migrate": fields.get("migratable", False)},
    }
    for kind in spec["accelerators"]:
        if kind["type"] in (fields.get("speeds") or {}):
            kind["speed"] = fields["speeds"][kind["type"]]
    if "min" in elastic:
        spec["minWorkers"] = int(elastic["min"])
        spec["resizes"] = "live"
    if "quota_units" in fields:
        spec["charge"] = int(fields["quota_units"])
    if (limit := _limit(fields)) is not None:
        spec["timeLimit"] = f"{limit:g}s"
    if "depends_on" in fields:
        names = fields["depends_on"]
        spec["after"] = [
            {"job": str(one), "condition": "finished"} for one in (names if isinstance(names, list) else [names])
        ]
    if "exclude" in fields:
        spec["nodes"] = {"exclude": list(fields["exclude"])}
    if "node_selector" in fields:
        spec["nodeSelector"] = _selector(fields["node_selector"], stage)
    roles = _roles(fields, stage)
    if roles:
        spec["roles"] = roles
        spec["workers"] = sum(role["workers"] for role in roles)
    return JobRecord(uid=f"job-{name}", namespace="default", name=name, spec=spec, user=str(fields.get("user", "")))


def _positive(job: str, what: str, value: object, least: int = 1) -> int:
    if not isinstance(value, int) or value < least or value > 2**31:
        raise ValueError(f"job {job}: {what} must be a whole number from {least} to {2**31}, found {value!r}")
    return value


def _limit(fields: Mapping[str, Any]) -> float | None:
    for key in ("runtime_min", "declared_ends", "ends"):
        if key in fields:
            return seconds(fields[key])
    return None


def habits_of(fields: Mapping[str, Any], requeue: bool, slow: bool) -> Habits:
    """How a job in the notation behaves."""
    work = next((seconds(fields[key]) for key in ("actual_runtime_min", "ends", "runtime_min") if key in fields), None)
    return Habits(work=work, requeue=bool(fields.get("requeue", requeue)), slow=slow)


def _kinds(fields: Mapping[str, Any], stage: Stage, per_pod: int) -> list[tuple[str, int]]:
    for word, npu in (("npu", True), ("gpu", False)):
        if word in fields:
            number = _positive(str(fields["job"]), word, fields[word])
            return [(kind, number) for kind in stage.kinds if _is_npu(kind) is npu] or [(word, number)]
    if not per_pod:
        return []
    named = fields.get("flavours") or ([fields["flavour"]] if "flavour" in fields else None)
    if named is not None:
        return [(str(kind), per_pod) for kind in named]
    return [(kind, per_pod) for kind in stage.kinds]


def _is_npu(kind: str) -> bool:
    try:
        return accelerator(kind).interconnect == "hccs"
    except KeyError:
        return kind.startswith(("npu", "ascend"))


def _topology(fields: Mapping[str, Any]) -> dict[str, Any]:
    topology: dict[str, Any] = {key: fields[key] for key in ("required", "preferred", "segment") if key in fields}
    if fields.get("spread") == "balanced":
        topology["split"] = "balanced"
    elif fields.get("spread", "pack") != "pack":
        raise UnknownKey(f"unknown spread {fields['spread']!r}")
    if "segment" in fields:
        known(f"segment of {fields['job']}", fields["segment"], SEGMENT)
        remainder = fields["segment"].get("allow_remainder", fields.get("allow_remainder", False))
        topology["segment"] = {key: fields["segment"][key] for key in ("size", "level")} | {"allowRemainder": remainder}
    if fields.get("intra_node") == "required":
        topology["devices"] = "joined"
    if fields.get("rail_match") == "required":
        topology["rails"] = "match"
    return topology


def _selector(wish: object, stage: Stage) -> dict[str, str]:
    if isinstance(wish, dict):
        return {str(key) if "/" in str(key) else LABEL + str(key): str(value) for key, value in wish.items()}
    if str(wish) not in stage.selectors:
        return {LABEL + "rack": str(wish)}
    key, value = stage.selectors[str(wish)]
    return {key: value}


def _roles(fields: Mapping[str, Any], stage: Stage) -> list[dict[str, Any]]:
    rows = [dict(row) for row in fields.get("roles") or ()]
    for row in rows:
        known(f"roles of {fields['job']}", row, ROLE)
    for name, group in (fields.get("groups") or {}).items():
        known(f"group {name}", group, GROUP)
        rows.append({"role": name, "per_pod": fields.get("per_pod", 1), **group})
    return [
        {
            "name": str(row["role"]),
            "workers": _positive(str(fields["job"]), "pods", row.get("pods", 1)),
            "accelerators": [
                {"type": kind, "count": number} for kind, number in _kinds(fields, stage, row.get("per_pod", 1))
            ],
            "topology": {"required": row["required"]} if "required" in row else {},
        }
        for row in rows
    ]
