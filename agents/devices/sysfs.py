"""What the kernel itself shows: RDMA ports, accelerators on PCIe, cores and memory."""

import re
from pathlib import Path
from typing import Any, Final

from agents.devices.rdma import state_of
from muster.inspection import FoundNic

SYS: Final = Path("/sys")
_VENDORS: Final = {
    "0x10de": "nvidia",
    "0x1002": "amd",
    "0x19e5": "ascend",
    "0xcabc": "cambricon",
    "0x1da3": "gaudi",
    "0x1d94": "hygon",
    "0x9999": "metax",
    "0x1ed5": "mthreads",
}
_COUNTERS: Final = (
    "link_downed",
    "link_error_recovery",
    "symbol_error",
    "port_rcv_errors",
    "port_xmit_discards",
    "port_xmit_wait",
    "port_rcv_data",
    "port_xmit_data",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "out_of_sequence",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "rx_icrc_encapsulated",
)
_CLASSES: Final = ("0x0300", "0x0302", "0x0380", "0x1200", "0x0b40")


def text(path: Path) -> str | None:
    """None when the file is not there or does not answer."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def number(path: Path) -> int | None:
    found = re.match(r"-?\d+", text(path) or "")
    return int(found.group()) if found else None


def nics(sys: Path = SYS) -> list[FoundNic]:
    """Every port of /sys/class/infiniband."""
    found: list[FoundNic] = []
    root = sys / "class/infiniband"
    for device in sorted(root.iterdir()) if root.is_dir() else ():
        ports = sorted((device / "ports").iterdir()) if (device / "ports").is_dir() else []
        found += [_port(device, port, len(ports)) for port in ports]
    return found


def _port(device: Path, port: Path, ports: int) -> FoundNic:
    state, rate = text(port / "state"), re.match(r"[\d.]+", text(port / "rate") or "")
    numa = text(device / "device/numa_node") or ""
    counters: dict[str, int] = {}
    for name in _COUNTERS:
        value = text(port / "counters" / name) or text(port / "hw_counters" / name)
        if value is not None and value.isdigit():
            counters[name] = int(value)
    netdev = device / "device/net"
    details: dict[str, Any] = {
        "device": device.name,
        "phys": text(port / "phys_state"),
        "counters": counters,
        "bus": (device / "device").resolve().name if (device / "device").exists() else None,
        "netdev": next((entry.name for entry in sorted(netdev.iterdir())), None) if netdev.is_dir() else None,
        "virtual_function": (device / "device/physfn").exists(),
    }
    return FoundNic(
        name=device.name if ports == 1 else f"{device.name}/{port.name}",
        link_layer=text(port / "link_layer"),
        state=state_of(state) if state else None,
        rate_gbps=float(rate.group()) if rate else None,
        numa=int(numa) if numa.isdigit() else None,
        details=details,
    )


def accelerators(sys: Path = SYS) -> dict[str, tuple[str, int | None, str | None]]:
    """Address -> vendor, NUMA node, local cores, for PCI devices that are accelerators."""
    found: dict[str, tuple[str, int | None, str | None]] = {}
    root = sys / "bus/pci/devices"
    for device in sorted(root.iterdir()) if root.is_dir() else ():
        vendor = _VENDORS.get(text(device / "vendor") or "")
        if vendor and (text(device / "class") or "").startswith(_CLASSES):
            numa = text(device / "numa_node") or ""
            found[device.name] = (vendor, int(numa) if numa.isdigit() else None, text(device / "local_cpulist") or None)
    return found


def pci_key(bus: str) -> str:
    """Addresses are compared without their domain's leading zeros and in lower case."""
    parts = bus.lower().split(":")
    return ":".join([f"{int(parts[0], 16):04x}", *parts[1:]]) if len(parts) == 3 else f"0000:{bus.lower()}"
