"""Kubernetes nodes, as `kubectl describe`, YAML, JSON or bare labels show them: place, devices, taints, health."""

import json
import re
from typing import Any, Final

import yaml

from muster.inspection import FoundNode, Inspection

Labels = dict[str, str]
_LONGEST: Final = 512 * 1024
_LEVELS: Final = (  # families of labels, outermost first
    (
        "oci.oraclecloud.com/rdma.hpc_island_id",
        "oci.oraclecloud.com/rdma.network_block_id",
        "oci.oraclecloud.com/rdma.local_block_id",
        "oci.oraclecloud.com/rdma.host_id",
    ),
    (
        "cloud.google.com/gce-topology-block",
        "cloud.google.com/gce-topology-subblock",
        "cloud.google.com/gce-topology-host",
    ),
    ("network.topology.nvidia.com/core", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/leaf"),
    (
        "network.topology.kubernetes.io/core",
        "network.topology.kubernetes.io/spine",
        "network.topology.kubernetes.io/block",
    ),
    ("topology.kubernetes.io/zone", "kubernetes.azure.com/agentpool"),  # a scale set is one InfiniBand domain of Azure
)
_LAYER: Final = re.compile(r"topology\.k8s\.aws/network-node-layer-(\d+)$")
_TIER: Final = re.compile(r"fabric\.topograph\.run/tier-(\d+)$")
_OURS: Final = "muster.dev/"
_RESOURCES: Final = {
    "nvidia.com/gpu": "nvidia",
    "nvidia.com/mig-": "nvidia",
    "amd.com/gpu": "amd",
    "huawei.com/Ascend": "ascend",
    "cambricon.com/": "cambricon",
    "habana.ai/gaudi": "gaudi",
    "hygon.com/dcu": "hygon",
    "metax-tech.com/gpu": "metax",
    "mthreads.com/gpu": "mthreads",
}
_LABEL: Final = re.compile(r"^[\w.-]+/[\w./-]+=[\w.:-]*$|^[\w.-]+=[\w.:-]*$")
_SLICES: Final = 7
_MOST_DEVICES: Final = 32


def read(text: str) -> Inspection:
    """One node; of several, the first."""
    found = Inspection()
    objects = _objects(text, found)
    if objects:
        found.node = _of_object(objects[0], found)
        if len(objects) > 1:
            read_labels(text, found)
    elif found.complete:
        _of_text(text, found)
    return found


def read_labels(text: str, into: Inspection) -> bool:
    """Levels and domains of a list of nodes. False when there are no nodes in it."""
    objects = _objects(text, into)
    if not objects:
        return False
    order: list[str] = []
    for item in objects:
        meta = item["metadata"] if isinstance(item.get("metadata"), dict) else {}
        name, labels = str(meta.get("name")), _strings(meta.get("labels"))
        places = levels_of(labels)
        if not places:
            into.fabric.unplaced.append(name)
        for level, place in places.items():
            order += [level] if level not in order else []
            into.fabric.domains.setdefault(level, {}).setdefault(place, []).append(name)
    into.fabric.levels = order
    if into.fabric.unplaced:
        into.note(f"{len(into.fabric.unplaced)} nodes carry no label of a place")
    into.node.details["nodes"] = len(objects)
    return True


def levels_of(labels: Labels) -> dict[str, str]:
    """Level -> place, outermost first. On AWS layer 1 is the farthest and the depth differs by zone; tier 0 of Topograph
    is the nearest."""
    ours = {name.removeprefix(_OURS): value for name, value in labels.items() if name.startswith(_OURS) and value}
    if ours:
        return ours
    layers = sorted((int(found.group(1)), name) for name in labels if (found := _LAYER.match(name)))
    if layers:
        return {f"layer-{number}": labels[name] for number, name in layers}
    tiers = sorted(((int(found.group(1)), name) for name in labels if (found := _TIER.match(name))), reverse=True)
    if tiers:
        return {f"tier-{number}": labels[name] for number, name in tiers}
    for family in _LEVELS:
        if family[0] == "topology.kubernetes.io/zone" and not labels.get(family[-1]):
            continue
        places = {re.split(r"[./]", name)[-1].removesuffix("_id"): labels[name] for name in family if labels.get(name)}
        if places:
            return {name.removeprefix("gce-topology-"): value for name, value in places.items()}
    return {}


def _objects(text: str, into: Inspection) -> list[dict[str, Any]]:
    if not re.search(r"\bkind[\"']?\s*:\s*[\"']?(Node|List|NodeList)\b", text):
        return []
    try:
        if text.lstrip().startswith("{"):
            loaded: list[Any] = [json.loads(text)]
        elif len(text) > _LONGEST:
            into.half("the YAML is longer than 512 KiB: give JSON")
            return []
        else:
            loaded = list(yaml.safe_load_all(text))
    except (ValueError, yaml.YAMLError) as error:
        into.half(f"the document ends or breaks in the middle: {str(error).splitlines()[0]}")
        return []
    items: list[Any] = []
    for document in loaded:
        if isinstance(document, dict):
            items += document.get("items") or [document]
    return [item for item in items if isinstance(item, dict) and item.get("kind", "Node") == "Node"]


def _strings(tree: Any) -> Labels:
    return (
        {str(key): "" if value is None else str(value) for key, value in tree.items()} if isinstance(tree, dict) else {}
    )


def _dicts(items: Any) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _of_object(item: dict[str, Any], into: Inspection) -> FoundNode:
    parts = (item.get(part) for part in ("metadata", "spec", "status"))
    meta, spec, status = (part if isinstance(part, dict) else {} for part in parts)
    node = FoundNode()
    node.details["name"] = meta.get("name")
    if not status and "nvidia.com/gpu.count" not in _strings(meta.get("labels")):
        into.half("the node has no status: its devices are not told")
    for taint in _dicts(spec.get("taints")):
        value = f"={taint['value']}" if taint.get("value") else ""
        node.taints.append(f"{taint.get('key')}{value}:{taint.get('effect')}")
    for condition in _dicts(status.get("conditions")):
        if condition.get("type") == "Ready":
            node.ready = {"True": True, "False": False}.get(str(condition.get("status")))
    capacity, allocatable = _strings(status.get("capacity")), _strings(status.get("allocatable"))
    _fill(node, _strings(meta.get("labels")), capacity, allocatable, _strings(meta.get("annotations")), into)
    return node


def _of_text(text: str, into: Inspection) -> None:
    labels: Labels = {}
    sections: dict[str, Labels] = {"capacity": {}, "allocatable": {}, "allocated": {}}
    node, section = into.node, ""
    for raw in text.split("\n"):
        line = re.sub(r"^\s*#\s?", "", raw).strip()
        title = re.match(
            r"(Capacity|Allocatable|Allocated resources|Labels|Taints|Conditions|Name|Annotations|[A-Z][A-Za-z ]+):\s*(.*)$",
            line,
        )
        if line == "...":
            into.half("lines were left out")
            continue
        if title:
            section, rest = title.group(1).split()[0].lower(), title.group(2)
            if section == "name" and rest:
                node.details["name"] = rest
            elif section == "unschedulable":
                node.details["unschedulable"] = rest == "true"
            line = rest if section in ("labels", "taints") else ""
        if section in ("labels", "") and _LABEL.match(line):
            key, _, value = line.partition("=")
            labels[key] = value
        elif section == "taints" and line and line != "<none>":
            node.taints.append(line)
        elif section == "conditions" and (ready := re.match(r"Ready\s+(True|False|Unknown)\b", line)):
            node.ready = {"True": True, "False": False}.get(ready.group(1))
        elif section in ("capacity", "allocatable") and (entry := re.match(r"([\w./-]+):\s*([\w.]+)", line)):
            sections[section][entry.group(1)] = entry.group(2)
        elif section == "allocated" and (used := re.match(r"([\w.-]+/[\w./-]+)\s+(\d+)\s", f"{line} ")):
            sections["allocated"][used.group(1)] = used.group(2)
    if not labels and not any(sections.values()):
        into.half("no node was recognised" if text.strip() else "the output is empty")
        return
    if "kubectl describe" in text or "Name:" in text or sections["capacity"]:
        missing = [name for name in ("capacity", "allocatable") if not sections[name]]
        if missing:
            into.half(f"missing: {', '.join(missing)}")
    _fill(node, labels, sections["capacity"], sections["allocatable"], {}, into)
    if sections["allocated"]:
        node.details["allocated"] = {name: int(count) for name, count in sections["allocated"].items()}
        node.details["free"] = {
            name: int(node.allocatable[name]) - int(count)
            for name, count in sections["allocated"].items()
            if isinstance(node.allocatable.get(name), int)
        }


def _fill(
    node: FoundNode, labels: Labels, capacity: Labels, allocatable: Labels, notes: Labels, into: Inspection
) -> None:
    places = levels_of(labels)
    node.levels = list(places.values())
    node.allocatable = {name: int(value) if value.isdigit() else value for name, value in allocatable.items()}
    details = node.details
    details |= {"level_names": list(places), "capacity": {n: int(v) if v.isdigit() else v for n, v in capacity.items()}}
    cpu = allocatable.get("cpu", "")
    if re.fullmatch(r"\d+m?", cpu):
        details["cpu_millicores"] = int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000
    clique = labels.get("nvidia.com/gpu.clique", "")
    if "." in clique:
        details["nvlink_domain"], _, details["nvlink_clique"] = clique.rpartition(".")
    for label, name in (
        ("topology.k8s.aws/ultraserver-id", "ultraserver"),
        ("accelerator.topograph.run/domain", "accelerator_domain"),
        ("nvidia.com/gpu.family", "family"),
        ("accelerator-type", "accelerator_type"),
        ("node.kubernetes.io/instance-type", "instance_type"),
    ):
        if labels.get(label):
            details[name] = labels[label]
    rdma = {
        n.removeprefix("rdma/"): int(v)
        for n, v in (capacity | allocatable).items()
        if n.startswith("rdma/") and v.isdigit()
    }
    if rdma:
        details["rdma"] = rdma
        into.note("RDMA resources count how often a NIC may be shared, not NICs")
    _devices(labels, capacity | {n: v for n, v in allocatable.items() if n not in capacity}, notes, details, into)


def _devices(labels: Labels, counts: Labels, notes: Labels, details: dict[str, Any], into: Inspection) -> None:
    """As many devices as the node counts; their health is only in annotations."""
    resources = {
        n: int(v) for n, v in counts.items() if v.isdigit() and any(n.startswith(known) for known in _RESOURCES)
    }
    if not resources and labels.get("nvidia.com/gpu.count", "").isdigit():
        resources = {"nvidia.com/gpu": int(labels["nvidia.com/gpu.count"])}
    details["resources"] = resources
    product, memory = labels.get("nvidia.com/gpu.product"), labels.get("nvidia.com/gpu.memory", "")
    sliced = re.match(r"(.*?)[-\s]*MIG[-\s]*(\d+g\.\d+gb)", product or "")
    strategy = labels.get("nvidia.com/mig.strategy", "none")
    told = "nvidia.com/gpu.slices.gi" in labels
    unsure = (product is None and strategy != "none") or (
        ("MIG" in (product or "") or told) and not (sliced is not None and told)
    )
    if resources.get("nvidia.com/gpu", 0) > _MOST_DEVICES and not labels:
        into.half("more GPUs than a machine holds, and no labels that tell whether they are slices or shares")
        return
    if unsure and "nvidia.com/gpu" in resources:
        into.half("devices may be cut into slices, and the labels that tell it are missing")
        return
    for name, count in list(resources.items()):
        per_device = 1
        mixed = re.match(r"nvidia\.com/mig-(\d+)g\.", name)
        slices = mixed.group(1) if mixed else labels.get("nvidia.com/gpu.slices.gi", "") if sliced else ""
        if slices.isdigit() and 0 < int(slices) <= _SLICES:
            per_device = _SLICES // int(slices)
            details |= {"schedulable_units": details.get("schedulable_units", 0) + count}
            into.note(f"{name}: {count} are slices, not devices")
        if sliced:
            details |= {"unit": sliced.group(2), "unit_memory_mib": int(memory) if memory.isdigit() else None}
        if mixed or count % per_device:  # how slices of several sizes share a device is not told
            continue
        details["physical_devices"] = details.get("physical_devices", 0) + count // per_device
        for _ in range(min(count // per_device, 1024)):
            device = into.device(into.free_index())
            device.vendor = next(vendor for known, vendor in _RESOURCES.items() if name.startswith(known))
            device.model = sliced.group(1) if sliced else product
            device.memory_mib = int(memory) if memory.isdigit() and not sliced else None
            device.details["resource"] = name
    _health(notes, details, into)


def _health(notes: Labels, details: dict[str, Any], into: Inspection) -> None:
    for suffix, key, problem in (
        ("-Unhealthy", "unhealthy", "unhealthy"),
        ("-NetworkUnhealthy", "network_unhealthy", "network unhealthy: not fit for jobs of many nodes"),
    ):
        for name, value in notes.items():
            if not name.startswith("huawei.com/Ascend") or not name.endswith(suffix):
                continue
            if suffix == "-Unhealthy" and name.endswith("-NetworkUnhealthy"):
                continue
            indices = [int(number) for number in re.findall(r"-(\d+)(?:,|$)", value)]
            details[key] = indices
            for device in into.devices:
                if device.index in indices:
                    device.healthy = False if key == "unhealthy" else device.healthy
                    device.problems.append(problem)
    if "unhealthy" in details or "network_unhealthy" in details:
        bad = [*details.get("unhealthy", ()), *details.get("network_unhealthy", ())]
        details["usable_for_multi_node"] = [d.index for d in into.devices if d.index not in bad]
        for device in into.devices:
            if device.index not in details.get("unhealthy", ()):
                device.healthy = True
