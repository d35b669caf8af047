"""What this machine has, read from the kernel: boot id, cores, memory, ports."""

import os
from pathlib import Path

PROC = Path("/proc")


def boot_id(suffix: str = "", proc: Path = PROC) -> str:
    """Changes when the machine boots; `suffix` tells virtual boots of one machine apart."""
    return (proc / "sys/kernel/random/boot_id").read_text().strip() + (f"-{suffix}" if suffix else "")


def network_id(proc: Path = PROC) -> str:
    """Names the network stack: agents that read the same share one port space."""
    return f"{boot_id(proc=proc)}:{os.stat(proc / 'self/ns/net').st_ino}"


def cpu_milli() -> int:
    """Thousandths of the cores that this process may use."""
    return len(os.sched_getaffinity(0)) * 1000


def memory(proc: Path = PROC) -> int:
    """Bytes of the machine's memory. Raises ValueError when the kernel does not say."""
    for line in (proc / "meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) * 1024
    raise ValueError("no MemTotal in meminfo")


def ephemeral_ports(proc: Path = PROC) -> tuple[int, int]:
    """First and last port that the kernel itself gives away."""
    first, last = (proc / "sys/net/ipv4/ip_local_port_range").read_text().split()
    return int(first), int(last)


def interface_of(address: str) -> str:
    """The network interface with this IPv4 address; `lo` when none has it (a loopback or translated address)."""
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(sock, 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
            except OSError:
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return "lo"
