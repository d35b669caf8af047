"""Where a worker's processes run: near their devices, talking over the ports that are nearest to these. Pure, but for
`cpus_of_node`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from muster.protocol import Device, Nic

NODES: Final = Path("/sys/devices/system/node")
LIKE_NCCL: Final = frozenset({"nvidia", "amd", "hygon", "metax"})
"""Vendors whose collective library reads NCCL's variables."""
OWN_INTERFACE: Final = {
    "ascend": "HCCL_SOCKET_IFNAME",
    "cambricon": "CNCL_SOCKET_IFNAME",
    "mthreads": "MCCL_SOCKET_IFNAME",
}


class Place(Struct, frozen=True):
    """`cpus` and `nodes` (of memory) are empty where a process is not bound."""

    cpus: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()


def places(
    devices: Sequence[Device], processes: int, cpu_milli: int, cpus_of: Callable[[int], tuple[int, ...]], have: set[int]
) -> tuple[Place, ...]:
    """One for each process: near its own device where there is one for each, else near all of them. Nobody is bound to
    fewer cores than his share of what was reserved (`cpu_milli`), and to none outside of `have`."""
    each = len(devices) == processes
    share = cpu_milli / 1000 / (processes if each else 1)
    return tuple(_near([devices[i]] if each else devices, share, cpus_of, have) for i in range(processes))


def _near(devices: Sequence[Device], cores: float, cpus_of: Callable[[int], tuple[int, ...]], have: set[int]) -> Place:
    nodes = tuple(sorted({one.numa for one in devices if one.numa is not None and one.numa >= 0}))
    if not nodes or any(one.numa is None for one in devices):
        return Place()
    cpus = tuple(sorted({cpu for node in nodes for cpu in cpus_of(node)} & have))
    return Place(cpus, nodes) if cpus and len(cpus) >= cores and set(cpus) != have else Place()


def variables(devices: Sequence[Device], nics: Sequence[Nic], interface: str) -> dict[str, str]:
    """For the vendor's collective library; nothing where nobody knows what is near."""
    vendors = {one.vendor for one in devices}
    if len(vendors) != 1:
        return {}
    vendor = vendors.pop()
    found = {}
    if vendor in OWN_INTERFACE and interface:
        found[OWN_INTERFACE[vendor]] = interface
    usable = {one.name for one in nics if one.state == "active"}
    ports = [name for name in dict.fromkeys(name for one in devices for name in one.nics) if name in usable]
    if vendor in LIKE_NCCL and ports:
        found["NCCL_IB_HCA"] = "=" + ",".join(_port(name) for name in ports)
    return found


def _port(name: str) -> str:
    """mlx5_0 and its second port mlx5_0/2, as NCCL writes them."""
    device, _, number = name.partition("/")
    return f"{device}:{number or 1}"


def cpus_of_node(node: int, root: Path = NODES) -> tuple[int, ...]:
    """Cores of a NUMA node; empty when the kernel does not say."""
    try:
        return cpu_list((root / f"node{node}" / "cpulist").read_text())
    except (OSError, ValueError):
        return ()


def cpu_list(text: str) -> tuple[int, ...]:
    """`0-3,8` as the kernel writes it. Raises ValueError."""
    found: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)
