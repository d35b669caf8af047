"""What each worker of a gang has of the manifest: the job's words, over them its role's, over them those of the kind of device
that was chosen."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from controller.launch.types import PlacedWorker
from controller.records import WorkerRecord
from muster.accelerators import canonical

W = TypeVar("W", WorkerRecord, PlacedWorker)

ONLY = "worker"
"""The role of all workers of a gang without roles."""

LED: Final = frozenset({"ray", "verl", "openrlhf"})
"""Frameworks whose first worker runs the program, and whose others wait for it for ever."""

_OWN = ("cpu", "memory", "ranksPerWorker", "accelerators")


def spec_of(spec: dict[str, Any], role: str, device_type: str | None = None) -> dict[str, Any]:
    """The spec as if the workers of this role, on this kind of device, were the whole gang."""
    own: Mapping[str, Any] = next((one for one in spec.get("roles") or () if one["name"] == role), {})
    merged = {**spec, **{name: own[name] for name in _OWN if own.get(name) is not None}}
    if own.get("command") is not None or own.get("script") is not None:
        merged |= {"command": own.get("command"), "script": own.get("script")}
    kinds = merged.get("accelerators") or ()
    chosen: Mapping[str, Any] = next((kind for kind in kinds if _same(kind["type"], device_type)), {})
    if image := chosen.get("image") or own.get("image"):
        merged["image"] = image
    env = {**(spec.get("env") or {}), **(own.get("env") or {}), **(chosen.get("env") or {})}
    return {**merged, "env": env} if env else merged


def roles_of(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Their names in the manifest's order."""
    return tuple(one["name"] for one in spec.get("roles") or ()) or (ONLY,)


def head_of(spec: Mapping[str, Any]) -> str | None:
    """The role whose success is the gang's."""
    return next((one["name"] for one in spec.get("roles") or () if one.get("head")), None)


def leads(spec: Mapping[str, Any], worker: WorkerRecord) -> bool:
    """Whether the gang has succeeded as soon as this worker, with others of whom it is true, has: all of the head role;
    without roles, in a framework whose other workers never end by themselves, the first."""
    if spec.get("roles"):
        return worker.role == head_of(spec)
    return spec.get("framework") in LED and worker.index == 0


def in_rank_order(spec: Mapping[str, Any], workers: Iterable[W]) -> list[W]:
    """Role after role as in the manifest, each by index."""
    places = {name: place for place, name in enumerate(roles_of(spec))}
    return sorted(workers, key=lambda worker: (places.get(worker.role, len(places)), worker.role, worker.index))


def _same(name: str, device_type: str | None) -> bool:
    return device_type is not None and (canonical(name) or name.strip().lower()) == device_type
