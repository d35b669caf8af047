"""The accelerators that device plugins give to a node, as devices. Pure.

A plugin tells numbers, not devices: which of them a pod gets is its own choice. So of those that are not to be had (not
allocatable, or with pods of others) as many are said to be unhealthy, from the last, but for those that ours hold.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from controller.executors.kubernetes.quantity import amount
from controller.executors.kubernetes.usage import Amounts
from muster.accelerators import canonical, catalogue
from muster.protocol import Device

VENDORS: Final[Mapping[str, tuple[str, ...]]] = {
    "nvidia": ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-"),
    "amd": ("amd.com/gpu", "amd.com/cpx_", "amd.com/spx_", "amd.com/dpx_", "amd.com/qpx_"),
    "ascend": ("huawei.com/Ascend", "huawei.com/npu"),
    "cambricon": ("cambricon.com/mlu", "cambricon.com/real-mlu"),
    "gaudi": ("habana.ai/gaudi",),
    "metax": ("metax-tech.com/gpu",),
    "mthreads": ("mthreads.com/gpu",),
    "hygon": ("hygon.com/dcu",),
}
"""Resources by vendor; one that ends in `-` or `_`, and Ascend's and Cambricon's, begin many names."""
_FAMILIES: Final = ("nvidia.com/mig-", "amd.com/cpx_", "amd.com/spx_", "amd.com/dpx_", "amd.com/qpx_")
_PREFIXES: Final = (*_FAMILIES, "huawei.com/Ascend", "cambricon.com/mlu")
_SHARES: Final = re.compile(
    r"(\.(share|smlu|vcore|vmemory|memory|env-share)\b|-(Unhealthy|NetworkUnhealthy|memory|core)$)"
)
_PRODUCT: Final[Mapping[str, tuple[str, ...]]] = {
    "nvidia": ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name"),
    "amd": ("amd.com/gpu.product-name", "beta.amd.com/gpu.product-name", "amd.com/gpu.family-name"),
    "ascend": ("node.kubernetes.io/npu.chip.name", "accelerator-type", "accelerator"),
    "cambricon": ("cambricon.com/mlu.product", "cambricon.com/mlu.model"),
    "gaudi": ("habana.ai/gaudi.product", "karpenter.k8s.aws/instance-accelerator-name"),
    "metax": ("metax-tech.com/gpu.product", "metax-tech.com/gpu.series"),
    "mthreads": ("mthreads.com/gpu.product", "mthreads.com/gpu.model"),
    "hygon": ("hygon.com/dcu.name", "hygon.com/dcu.product"),
}
_ASCEND: Final = {"module": "910a", "half": "910a", "card": "910a", "module-a3-16": "910c", "module-a3-8": "910c"}
_MACHINES: Final = {  # instance types whose name does not say what is in them
    "p3": "v100", "p4d": "a100-40gb", "p4de": "a100-80gb", "p5": "h100", "p5e": "h200", "p5en": "h200", "p6-b200": "b200",
    "p6-b300": "b300", "p6e-gb200": "gb200", "g4dn": "t4", "g5": "a10g", "g6": "l4", "g6e": "l40s", "dl1": "gaudi",
    "dl2q": "", "a2-highgpu": "a100-40gb", "a2-ultragpu": "a100-80gb", "a3-highgpu": "h100", "a3-megagpu": "h100",
    "a3-ultragpu": "h200", "a4-highgpu": "b200", "a4x-highgpu": "gb200", "g2-standard": "l4",
}  # fmt: skip
_SLICE: Final = re.compile(r"MIG[-\s]*(\d+g\.\d+gb)", re.IGNORECASE)
_MOST: Final = 1024


class Kind(Struct, frozen=True, kw_only=True):
    """`type` is the catalogue's name, else the resource's own, which no job can ask for. `why` says what is missing."""

    resource: str
    vendor: str
    type: str
    model: str = ""
    memory_mib: int | None = None
    why: str = ""


def vendor_of(resource: str) -> str | None:
    """Whose device plugin gives this resource; None where it is no whole device or slice of one."""
    if _SHARES.search(resource):
        return None
    for vendor, names in VENDORS.items():
        if resource in names or any(resource.startswith(one) for one in names if one in _PREFIXES):
            return vendor
    return None


def devices(
    labels: Mapping[str, str],
    notes: Mapping[str, str],
    capacity: Mapping[str, Any],
    allocatable: Mapping[str, Any],
    used: Amounts,
    held: Iterable[int] = (),
    types: Mapping[str, str] | None = None,
) -> tuple[tuple[Device, ...], list[str]]:
    """All devices of a node, and what could not be found out. `used`: by pods of others, `held`: indices that ours hold,
    `types`: what the site says of a resource, before all labels."""
    found, problems, mine = list[Device](), list[str](), frozenset(held)
    for resource in sorted(name for name in {*capacity, *allocatable} if vendor_of(name)):
        given = int(amount(allocatable.get(resource, 0)))
        size = min(max(int(amount(capacity.get(resource, 0))), given), _MOST)
        kind = kind_of(resource, labels, types or {})
        if size and kind.why:
            problems.append(f"{resource}: {kind.why}")
        first = len(found)
        bad = _unhealthy(resource, notes, first, size)
        bad |= _last(range(first, first + size), size - given, bad, mine, "not allocatable")
        mine_here = sum(index in mine for index in range(first, first + size))
        strange = min(int(used.get(resource, 0)), given - min(mine_here, given))
        bad |= _last(range(first, first + size), len(bad) + strange, bad, mine, "used by a pod that is not of Muster")
        found += [_device(index, kind, bad.get(index, "")) for index in range(first, first + size)]
    return tuple(found), problems


def kind_of(resource: str, labels: Mapping[str, str], types: Mapping[str, str]) -> Kind:
    vendor = vendor_of(resource) or ""
    product = next((labels[name] for name in _PRODUCT.get(vendor, ()) if labels.get(name)), "")
    memory = labels.get("nvidia.com/gpu.memory", "") if vendor == "nvidia" else ""
    if part := _part(resource, product):
        return Kind(
            resource=resource, vendor=vendor, type=part, model=product, why="parts of devices are not given out"
        )
    if resource.endswith(".shared") or product.upper().endswith("-SHARED"):
        return Kind(resource=resource, vendor=vendor, type=resource, model=product, why="these are shares of devices")
    type_ = types.get(resource) or _type(vendor, resource, labels, product)
    return Kind(
        resource=resource,
        vendor=vendor,
        type=type_ or resource,
        model=product,
        memory_mib=int(memory) if memory.isdigit() else None,
        why="" if type_ else f"the model is not told ({product or 'no label says it'})",
    )


def _part(resource: str, product: str) -> str:
    if resource.startswith(_FAMILIES) and not resource.startswith("amd.com/spx_"):
        return resource.partition("/")[2]
    sliced = _SLICE.search(product) if resource == "nvidia.com/gpu" else None
    return f"mig-{sliced[1]}" if sliced else ""


def _type(vendor: str, resource: str, labels: Mapping[str, str], product: str) -> str:
    for text in (labels.get(name, "") for name in _PRODUCT.get(vendor, ())):
        known = _ASCEND.get(text, "") if vendor == "ascend" and resource.endswith("Ascend910") else ""
        if text and (type_ := known or canonical(text)):
            return type_
    if vendor == "ascend" and (type_ := canonical(resource.partition("/")[2].split("-")[0])):
        return type_
    return _of_machine(vendor, labels)


def _of_machine(vendor: str, labels: Mapping[str, str]) -> str:
    machine = labels.get("node.kubernetes.io/instance-type") or labels.get("beta.kubernetes.io/instance-type") or ""
    for name in (machine.partition(".")[0], "-".join(machine.split("-")[:2])):
        if _MACHINES.get(name):
            return _MACHINES[name]
    for word in re.split(r"[^A-Za-z0-9]+", machine):  # Standard_ND96isr_H100_v5, BM.GPU.MI300X.8
        type_ = canonical(word) if re.search(r"[A-Za-z]", word) and re.search(r"\d", word) else None
        if type_ and catalogue()[type_].vendor == vendor:
            return type_
    return ""


def _unhealthy(resource: str, notes: Mapping[str, str], first: int, size: int) -> dict[int, str]:
    """Ascend's plugin names them in annotations only."""
    bad = dict[int, str]()
    for suffix, why in (
        ("NetworkUnhealthy", "its network is not healthy"),
        ("Unhealthy", "not healthy, says its plugin"),
    ):
        for number in re.findall(r"-(\d+)(?=\s*(?:,|$))", notes.get(f"{resource}-{suffix}", "")):
            if int(number) < size:
                bad[first + int(number)] = why
    return bad


def _last(where: range, count: int, bad: Mapping[int, str], held: frozenset[int], why: str) -> dict[int, str]:
    """More that are bad, until they are `count`: from the last, those that ours hold not at all."""
    good = [index for index in reversed(where) if index not in bad and index not in held]
    already = sum(1 for index in bad if index in where)
    return dict.fromkeys(good[: max(count - already, 0)], why)


def _device(index: int, kind: Kind, problem: str) -> Device:
    known = catalogue().get(kind.type)
    return Device(
        index=index,
        type=kind.type,
        vendor=kind.vendor,
        model=kind.model,
        memory_mib=kind.memory_mib,
        group=0 if known is not None and known.domain_size > 1 else None,
        healthy=not problem,
        problems=(problem,) if problem else (),
    )
