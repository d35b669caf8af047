"""What single lines of a kernel log mean. Each rule: code, severity, action, pattern; `dev` names the device."""

import re
from typing import Final, NamedTuple

_PCI = r"(?P<dev>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_MLX = rf"mlx[45]_core(?: {_PCI})?:"
_AMD = rf"amdgpu(?: {_PCI})?:"


class Rule(NamedTuple):
    code: str
    severity: str
    action: str
    pattern: re.Pattern[str]


def _rule(code: str, severity: str, action: str, pattern: str) -> Rule:
    return Rule(code, severity, action, re.compile(pattern))


RULES: Final = (
    # accelerators
    _rule(
        "gpu-reset-required",
        "fatal",
        "find the GPU that needs a reset; drain and reset",
        r"NVRM:.*NV_ERR_RESET_REQUIRED",
    ),
    _rule(
        "gpu-probe-failed",
        "error",
        "see the GPU that fell off the bus",
        r"NVRM: The NVIDIA probe routine failed for (?P<dev>\d+) device",
    ),
    _rule("amdgpu-ras-uncorrectable", "fatal", "drain and reset", rf"{_AMD}.*(?<!\w)uncorrectable hardware error"),
    _rule("amdgpu-ras-correctable", "warning", "watch", rf"{_AMD}.*(?<!\w)correctable hardware error"),
    _rule(
        "amdgpu-hang",
        "error",
        "restart the process; drain and reset on repeat",
        rf"(?:{_AMD}|HW Exception by GPU node-(?P<node>\d+)).*(?:GPU Hang|ring \S+ timeout)",
    ),
    _rule("amdgpu-reset-failed", "fatal", "drain and reboot", rf"{_AMD}.*GPU reset.*fail"),
    _rule(
        "amdgpu-reset",
        "error",
        "all processes on the GPUs that are joined with it are lost",
        rf"{_AMD}.*GPU reset (?:begin|end)",
    ),
    _rule("amdgpu-page-fault", "warning", "application: restart the process", rf"{_AMD}.*\bpage fault\b"),
    _rule(
        "ascend-0x40F84E00",
        "fatal",
        "heartbeat lost: drain the device and reset it",
        r"\[ascend\].*Heartbeat lost! \(device=(?P<dev>\d+)",
    ),
    _rule(
        "ascend-dma-copy-failed",
        "warning",
        "watch: an error, though it is logged as INFO",
        r"\[ascend\].*DMA copy failed",
    ),
    _rule(
        "ascend-error", "warning", "watch", r"\[ascend\](?: \[\w+\])? \[ERROR\](?:.*\bdev(?:ice|_?id)?=(?P<dev>\d+))?"
    ),
    # NICs
    _rule(
        "nic-lost",
        "fatal",
        "drain; reseat or replace the NIC",
        rf"{_MLX}.*(?:PCI slot is unavailable|Fatal error \d+ detected|recovery flow aborted)",
    ),
    _rule(
        "nic-firmware-error",
        "fatal",
        "drain; reset the NIC",
        rf"{_MLX}.*(?:firmware internal error|device's health compromised)",
    ),
    _rule("nic-over-temperature", "error", "drain; check cooling", rf"{_MLX}.*[Hh]igh [Tt]emperature"),
    _rule("nic-module-error", "error", "check the cable or its module", rf"{_MLX}.*Port module event\[error\]"),
    _rule(
        "nic-init-failed",
        "fatal",
        "NIC absent: driver and kernel or firmware do not fit",
        rf"(?:{_MLX}.*(?:mlx5_load_one failed|handle_hca_cap failed)|mlx[45]_core: probe of (?P<probe>\S+) failed)",
    ),
    _rule("nic-power-low", "info", "usually harmless", rf"{_MLX}.*insufficient power on the PCIe slot"),
    _rule("nic-command-failed", "warning", "watch", rf"{_MLX}.*\w+\(0x[0-9a-f]+\) op_mod\(0x[0-9a-f]+\) failed"),
    _rule(
        "nic-link-down",
        "warning",
        "watch: flapping when it comes again",
        r"(?:mlx[45]_core|bnxt_en|ice|i40e|ionic) (?P<pci>\S+) (?P<dev>\S+): (?:NIC )?Link [Dd]own",
    ),
    # disks and file systems
    _rule(
        "nvme-removed",
        "fatal",
        "drain: the disk is gone",
        r"nvme (?P<dev>nvme\d+): (?:Removing after probe failure|Disabling device after reset failure)",
    ),
    _rule("nvme-down", "error", "watch: the controller is reset", r"nvme (?P<dev>nvme\d+): controller is down"),
    _rule("nvme-timeout", "warning", "watch", r"nvme (?P<dev>nvme\d+): I/O (?:tag )?\d+.*timeout"),
    _rule(
        "nvme-no-path",
        "fatal",
        "drain: the disk does not answer",
        r"block (?P<dev>nvme\w+): no (?:available|usable) path",
    ),
    _rule(
        "disk-gone",
        "fatal",
        "drain: the disk is gone",
        r"(?P<dev>[\w-]+): detected capacity change from \d+ to 0(?!\d)",
    ),
    _rule(
        "read-only",
        "fatal",
        "drain: the file system is read-only",
        r"\((?P<dev>[\w-]+)\): Remounting filesystem read-only",
    ),
    _rule(
        "fs-shutdown",
        "fatal",
        "drain: the file system is shut down",
        r"XFS \((?P<dev>[\w-]+)\): .*(?:has been shut down|Corruption detected|Shutting down filesystem)",
    ),
    _rule("fs-error", "error", "drain; check the file system", r"EXT[234]-fs error \(device (?P<dev>[\w-]+)\)"),
    _rule(
        "fs-io-error",
        "error",
        "drain; check the disk",
        r"(?:EXT[234]-fs|XFS|BTRFS)[\w :]*\((?:device )?(?P<dev>[\w-]+)\):.*I/O error",
    ),
    _rule("raid-disk-failure", "fatal", "drain: the array fails", r"md/raid[\w:]*: Disk failure on (?P<dev>[\w-]+)"),
    _rule(
        "disk-io-error",
        "error",
        "drain; check the disk",
        r"(?:I/O error|critical (?:medium|target) error), dev (?P<dev>[\w-]+)",
    ),
    _rule("nfs-not-responding", "warning", "watch: mounts hang", r"nfs: server (?P<dev>\S+) not responding"),
    # processor, memory, kernel
    _rule("edac-uncorrected", "fatal", "drain; replace the memory module", r"EDAC (?P<dev>MC\d+): \d+ UE"),
    _rule("edac-corrected", "warning", "watch", r"EDAC (?P<dev>MC\d+): \d+ CE"),
    _rule("memory-page-isolated", "warning", "watch: memory is failing", r"RAS: .*isolate page: (?P<dev>0x[0-9a-f]+)"),
    _rule("memory-failure", "error", "drain; check the memory", r"Memory failure: (?P<dev>0x[0-9a-f]+): .*"),
    _rule("hard-lockup", "fatal", "drain and reboot", r"hard LOCKUP on cpu (?P<dev>\d+)"),
    _rule("soft-lockup", "error", "drain and reboot on repeat", r"BUG: soft lockup - CPU#(?P<dev>\d+) stuck"),
    _rule("rcu-stall", "error", "drain and reboot on repeat", r"rcu:? .*(?:self-detected stall|detected stalls)"),
    _rule("kernel-panic", "fatal", "the node reboots", r"Kernel panic - not syncing"),
    _rule("kernel-bug", "error", "drain and reboot", r"(?:kernel BUG at|BUG: unable to handle)"),
    _rule(
        "hung-task",
        "error",
        "drain and reboot on repeat",
        r"INFO: task (?P<dev>\S+):\d+ blocked for more than \d+ seconds",
    ),
    _rule("conntrack-full", "warning", "raise the limit: packets are dropped", r"nf_conntrack: table full"),
    _rule("pcie-bandwidth", "warning", "reseat on repeat", rf"{_PCI}: .*available PCIe bandwidth, limited by"),
    _rule("thermal", "warning", "check cooling", r"(?P<dev>CPU\d+): .*temperature above threshold"),
)


def match(message: str) -> tuple[Rule, str | None] | None:
    """The first rule that knows this line, and the device it names."""
    for rule in RULES:
        found = rule.pattern.search(message)
        if found:
            return rule, next((value for value in found.groupdict().values() if value), None)
    return None
