"""The catalogue of accelerators: names as drivers and Kubernetes print them, and what a device is.

The rows are data (`accelerators.toml`, in the wheel); nothing else in Muster knows a model by name.
"""

import difflib
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any, Final, Literal

Interconnect = Literal["pcie", "nvlink", "xgmi", "hccs", "mlu-link", "roce", "metaxlink", "mtlink"]

_VENDOR_WORDS: Final = frozenset(
    {"nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "huawei", "ascend", "cambricon", "intel", "habana"}
    | {"hygon", "dcu", "metax", "moore", "threads"}
)
_PARTIAL: Final = re.compile(r"[-_ ](mig[-_ ].*|shared)$")


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One kind of device, as the driver counts devices (half a card where a card holds two).

    `memory_gib` is nominal, per device. `bf16_tflops` is the peak dense bf16 matrix rate, None where the
    vendor publishes none or the device has none; `source` says where it is from. `domain_size` is how many
    devices one `interconnect` domain joins at most in the common system (1: none but PCIe).
    """

    name: str
    vendor: str
    title: str
    memory_gib: int
    bf16_tflops: float | None
    source: str
    interconnect: Interconnect
    domain_size: int
    kubernetes_resource: str
    visible_devices: str
    aliases: tuple[str, ...]


@cache
def catalogue() -> MappingProxyType[str, Accelerator]:
    """All kinds by canonical name, in the order of the data."""
    data = tomllib.loads(resources.files(__package__).joinpath("accelerators.toml").read_text("utf-8"))
    rows = (_row(row, data["vendor"][row["vendor"]]) for row in data["accelerator"])
    return MappingProxyType({row.name: row for row in rows})


def canonical(name: str) -> str | None:
    """The catalogue's name of what a driver, a label or a person calls `name`, e.g. "NVIDIA H100 80GB HBM3" is
    "h100". None when unknown, and for parts of a device (MIG slices, time-shared replicas)."""
    text = name.strip().lower()
    if _PARTIAL.search(text):
        return None
    return _index().get(_key(text))


def accelerator(name: str) -> Accelerator:
    """The kind that `name` means. Raises KeyError, with the nearest known name in its text."""
    found = canonical(name)
    if found is None:
        near = suggest(name)
        raise KeyError(f"unknown accelerator {name!r}" + (f'; did you mean "{near}"?' if near else ""))
    return catalogue()[found]


def suggest(name: str) -> str | None:
    """The canonical name that was probably meant, or None when nothing is close."""
    found = canonical(name)
    if found:
        return found
    near = difflib.get_close_matches(_key(name.lower()), _index(), n=1, cutoff=0.6)
    return _index()[near[0]] if near else None


def _row(row: dict[str, Any], vendor: dict[str, Any]) -> Accelerator:
    link = row.get("interconnect", "pcie")
    return Accelerator(
        name=row["name"],
        vendor=row["vendor"],
        title=row["title"],
        memory_gib=row["memory"],
        bf16_tflops=float(row["bf16"]) if "bf16" in row else None,
        source=row["source"],
        interconnect=link,
        domain_size=row.get("domain", 1),
        kubernetes_resource=row.get("resource", vendor["resource"]),
        visible_devices=vendor["visible_devices"],
        aliases=tuple(row.get("aliases", ())),
    )


@cache
def _index() -> dict[str, str]:
    """Canonical names by key. Raises ValueError when two kinds share a name."""
    index: dict[str, str] = {}
    for kind in catalogue().values():
        for text in (kind.name, kind.title, *kind.aliases):
            key = _key(text.lower())
            if index.setdefault(key, kind.name) != kind.name:
                raise ValueError(f"{text!r} names both {index[key]} and {kind.name}")
    return index


def _key(text: str) -> str:
    """Words without the vendor's, joined: "nvidia-h100-80gb-hbm3" is "h10080gbhbm3", "ascend910b3" is "910b3"."""
    return "".join(word for word in re.split(r"[^a-z0-9]+", text) if word not in _VENDOR_WORDS).removeprefix("ascend")
