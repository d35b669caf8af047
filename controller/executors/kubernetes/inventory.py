"""A Node object as what the planner knows of a machine. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from controller.executors.kubernetes.devices import devices, vendor_of
from controller.executors.kubernetes.quantity import amount
from controller.executors.kubernetes.usage import Amounts
from controller.records import Taint
from muster.conditions import Condition
from muster.fabric.kubernetes import levels_of
from muster.protocol import Device, Nic

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""The taint by which an operator vouches that the machine is down."""
FENCED: Final = "MusterFenced"
"""The condition by which an agent says that it has stopped everything there."""
PREFIX: Final = "muster.dev/"
_EFA: Final = "vpc.amazonaws.com/efa"
_SILENT: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable")
_NAMES: Final = ("leaf", "block")
_HOST: Final = ("host", "node", "hostname")
_PRESSURE: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")


class Rules(Struct, frozen=True, kw_only=True):
    """What a site says of its nodes. `levels`: the label that holds the place, by level, outermost first (none: the
    labels of AWS, GCP, OCI, Azure and Topograph are known). `devices`: the kind of device by resource."""

    levels: Mapping[str, str] = {}
    devices: Mapping[str, str] = {}
    interface: str = "eth0"


class KubeNode(Struct, frozen=True, kw_only=True):
    """What is read from a Node. `ready` is what Kubernetes says; `gone` is the proof that nothing runs there any more."""

    name: str
    uid: str
    address: str
    labels: dict[str, str] = {}
    cpu_milli: int = 0
    memory: int = 0
    devices: tuple[Device, ...] = ()
    nics: tuple[Nic, ...] = ()
    taints: tuple[Taint, ...] = ()
    conditions: tuple[Condition, ...] = ()
    problems: tuple[str, ...] = ()
    boot_id: str = ""
    version: str = ""
    ready: bool = False
    cordoned: bool = False
    gone: str = ""


def read_node(
    node: Mapping[str, Any], *, used: Amounts | None = None, held: Iterable[int] = (), rules: Rules | None = None
) -> KubeNode:
    """`used`: what pods of others take there; `held`: the devices that ours hold."""
    meta, spec, status = (node.get(part) or {} for part in ("metadata", "spec", "status"))
    rules, taken = rules or Rules(), used or {}
    labels = {str(name): str(value) for name, value in (meta.get("labels") or {}).items()}
    notes = {str(name): str(value) for name, value in (meta.get("annotations") or {}).items()}
    capacity = status.get("capacity") or {}
    allocatable = status.get("allocatable") or capacity
    found, problems = devices(labels, notes, capacity, allocatable, taken, held, rules.devices)
    info = status.get("nodeInfo") or {}
    return KubeNode(
        name=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        address=_address(status, str(meta.get("name", ""))),
        labels=labels | places(labels, rules.levels),
        cpu_milli=max(int((amount(allocatable.get("cpu", 0)) - taken.get("cpu", amount(0))) * 1000), 0),
        memory=max(int(amount(allocatable.get("memory", 0)) - taken.get("memory", amount(0))), 0),
        devices=found,
        nics=_nics(allocatable),
        taints=_taints(spec),
        conditions=_conditions(status),
        problems=tuple(problems),
        boot_id=str(info.get("bootID", "")),
        version=str(info.get("kubeletVersion", "")),
        ready=_is(status, "Ready") and not meta.get("deletionTimestamp"),
        cordoned=bool(spec.get("unschedulable")),
        gone=_gone(spec, status),
    )


def places(labels: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """The labels of Muster's own levels. Unless a site chose, the innermost two levels of switches are leaf and block,
    and all levels keep their own names beside that. What is named like a host is no level: it is the node."""
    if chosen:
        return {f"{PREFIX}{level}": labels[label] for level, label in chosen.items() if labels.get(label)}
    if any(f"{PREFIX}{level}" in labels for level in _NAMES):
        return {}
    levels = {name: place for name, place in levels_of(dict(labels)).items() if name not in _HOST}
    own = {f"{PREFIX}{name}": place for name, place in levels.items()}
    inner = dict(zip((f"{PREFIX}{name}" for name in _NAMES), reversed(levels.values()), strict=False))
    clique = labels.get("nvidia.com/gpu.clique") or labels.get("accelerator.topograph.run/domain")
    domain = {f"{PREFIX}nvlink-domain": clique} if clique else {}
    return own | inner | domain


def _address(status: Mapping[str, Any], name: str) -> str:
    told = {one.get("type"): str(one.get("address", "")) for one in status.get("addresses") or ()}
    return told.get("InternalIP") or told.get("InternalDNS") or told.get("Hostname") or name


def _taints(spec: Mapping[str, Any]) -> tuple[Taint, ...]:
    """Those that keep pods away. Silence and cordons have phases of their own."""
    hard = [one for one in spec.get("taints") or () if one.get("effect") in ("NoSchedule", "NoExecute")]
    return tuple(sorted({Taint(one["key"], one.get("value") or "") for one in hard if one["key"] not in _SILENT}))


def _conditions(status: Mapping[str, Any]) -> tuple[Condition, ...]:
    """What is wrong, of the kubelet and of a problem detector: any that is true, but Ready and our own."""
    return tuple(
        Condition(
            kind="Kubernetes",
            reason=str(one["type"]),
            message=str(one.get("message") or one.get("reason") or "")[:1000],
            severity="warning" if one["type"] in _PRESSURE else "info",
        )
        for one in status.get("conditions") or ()
        if one.get("status") == "True"
        and one.get("type") not in ("Ready", FENCED)
        and not str(one["type"]).endswith("Ready")
    )


def _nics(allocatable: Mapping[str, Any]) -> tuple[Nic, ...]:
    """EFA interfaces are counted as they are. What `rdma/` names is how often an interface may be shared."""
    return tuple(Nic(name=f"efa{number}", link_layer="EFA") for number in range(int(amount(allocatable.get(_EFA, 0)))))


def _is(status: Mapping[str, Any], kind: str) -> bool:
    return any(one.get("type") == kind and one.get("status") == "True" for one in status.get("conditions") or ())


def _gone(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    if any(one.get("key") == OUT_OF_SERVICE for one in spec.get("taints") or ()):
        return f"it carries the taint {OUT_OF_SERVICE}"
    if _is(status, FENCED) and not _is(status, "Ready"):
        return "its agent has stopped everything there"
    return ""


def resources_of(devices: Iterable[Device], capacity: Mapping[str, Any]) -> dict[str, str]:
    """The resource by which each kind of device of a node is asked for."""
    vendors = {device.type: device.vendor for device in devices}
    return {
        type_: next((name for name in sorted(capacity) if vendor_of(name) == vendor), "")
        for type_, vendor in vendors.items()
    }
