"""What a manifest says of how the processes run, as a launch template has it."""

from typing import Any, Final

from msgspec import UNSET, UnsetType

from muster.accelerators import canonical, catalogue
from muster.launch import PLAINLY, Container, Mount, Running
from muster.quantity import parse_cpu, parse_memory

UNLIMITED: Final = -1


def running(spec: dict[str, Any]) -> Running | UnsetType:
    """UNSET when the manifest says nothing of it."""
    hard, ulimits = spec.get("limits") or {}, spec.get("ulimits") or {}
    found = Running(
        cpu=parse_cpu(hard["cpu"]) if hard.get("cpu") else 0,
        memory=parse_memory(hard["memory"]) if hard.get("memory") else 0,
        ulimits={name: UNLIMITED if value == "unlimited" else int(value) for name, value in ulimits.items()},
        bind=spec.get("binding", "auto") == "auto",
        login_shell=bool(spec.get("loginShell")),
        container=_container(spec),
    )
    return UNSET if found == PLAINLY else found


def _container(spec: dict[str, Any]) -> Container | None:
    if not spec.get("image"):
        return None
    return Container(
        image=spec["image"],
        pull=spec.get("imagePull", "missing"),
        mounts=tuple(
            Mount(one["source"], one.get("target") or one["source"], bool(one.get("readOnly")))
            for one in spec.get("mounts") or ()
        ),
        shm=parse_memory(spec["shmSize"]) if spec.get("shmSize") else 0,
    )


OURS: Final = frozenset(
    {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    | {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA", "HCCL_SOCKET_IFNAME", "CNCL_SOCKET_IFNAME"}
    | {"MCCL_SOCKET_IFNAME"}
)
"""What ranks get from Muster whatever their devices are, beside MUSTER_*."""


def overridden(spec: dict[str, Any]) -> list[str]:
    """Variables of the manifest that take the place of Muster's: the user should know."""
    asked = (accelerator.get("type", "") for accelerator in spec.get("accelerators") or ())
    kinds = (catalogue().get(canonical(name) or "") for name in asked)
    visible = {kind.visible_devices for kind in kinds if kind is not None}
    return sorted(name for name in spec.get("env") or {} if name in OURS | visible or name.startswith("MUSTER_"))
