"""Accelerators: are all there, does the driver ask for recovery, memory errors, links, throttling, leftovers."""

from typing import Any, Final

from agents.health.check import Check, Memory, Scene, in_a_row, wrong
from muster.conditions import Condition, Remedy
from muster.inspection import FoundDevice

PERIOD: Final = 30.0
TIMEOUT: Final = 30.0
LEFTOVER_MIB: Final = 512
_PORT: Final = ("link down", "net health", "lane ", "loss of received signal", "packet errors")
"""What is said of a device's own network port (Ascend)."""


def count(scene: Scene, memory: Memory) -> list[Condition]:
    """Every device that the node has had, and as many as it must have."""
    missing = [one for one in scene.known if not any(_same(one.index, device) for device in scene.found.devices)]
    found = [
        wrong(
            "DeviceMissing", "DeviceMissing",
            f"{one.model or one.type} {one.uuid or one.bus or one.index} is not seen any more", "fatal", Remedy.REBOOT,
            device=one.index,
        )
        for one in missing
    ]  # fmt: skip
    here = len(scene.found.devices)
    if scene.expected is not None and here < scene.expected and len(missing) < scene.expected - here:
        message = f"{here} devices are seen, {scene.expected} are expected"
        found.append(wrong("DeviceMissing", "DeviceCountShort", message, "fatal", Remedy.REBOOT))
    return found


def _same(index: int, device: FoundDevice) -> bool:
    return device.index == index and device.details.get("listed", True) is not False


def recovery(scene: Scene, memory: Memory) -> list[Condition]:
    """The driver's own word comes before any counter."""
    found = []
    for device in scene.found.devices:
        action = str(device.details.get("recovery_action") or "")
        low = action.lower()
        if low not in ("", "none", "n/a"):
            remedy = Remedy.REBOOT if "reboot" in low else Remedy.RESET
            severity = "error" if "p2p" in low else "fatal"
            message = f"the driver asks for recovery: {action}"
            found.append(wrong("RecoveryAction", _camel(action), message, severity, remedy, device=device.index))  # type: ignore[arg-type]
        elif device.details.get("reset_required"):
            found.append(
                wrong("RecoveryAction", "ResetRequired", "reset required", "fatal", Remedy.RESET, device=device.index)
            )
    return found


def memory_errors(scene: Scene, memory: Memory) -> list[Condition]:
    """Uncorrected errors since the last reset; rows that wait for one; rows that cannot be replaced."""
    found = []
    for device in scene.found.devices:
        errors = uncorrected(device)
        remap = device.details.get("remap") or {}
        if errors:
            message = f"{errors} uncorrected memory errors since the last reset"
            found.append(wrong("MemoryErrors", "EccUncorrected", message, "fatal", Remedy.RESET, device=device.index))
        if remap.get("failure"):
            message = "a memory row could not be remapped: replace the device"
            found.append(wrong("MemoryErrors", "RowRemapFailed", message, "fatal", Remedy.REPLACE, device=device.index))
        elif remap.get("pending"):
            message = "a remapped memory row waits for a reset: finish the job, then reset"
            found.append(wrong("MemoryErrors", "RowRemapPending", message, "error", Remedy.RESET, device=device.index))
    return found


def uncorrected(device: FoundDevice) -> int:
    """Of this boot or since the last reset, whatever the source calls them."""
    details = device.details
    ecc = details.get("ecc")
    if isinstance(ecc, dict):
        return sum(n for name, n in ecc.items() if "uncorr" in name and "aggregate" not in name and isinstance(n, int))
    told: Any = details.get("ecc_uncorr")
    return told if isinstance(told, int) else 0


def links(scene: Scene, memory: Memory) -> list[Condition]:
    """Links between the devices of this node, and what manages them."""
    found = []
    for device in scene.found.devices:
        down = device.details.get("inactive_links")
        names = ", ".join(f"{name}" for name, rate in (device.details.get("links") or {}).items() if rate is None)
        if isinstance(down, int) and down > 0:
            message = f"{down} of {device.details.get('link_count')} links to other devices are down ({names})"
            found.append(wrong("DeviceLinks", "LinkDown", message, "fatal", Remedy.RESET, device=device.index))
    states = {}
    for device in scene.found.devices:
        fabric = device.details.get("fabric") or {}
        state = str(fabric.get("state") or "")
        if state and state.lower() not in ("completed", "n/a", "not supported", "not_supported"):
            states[device.index] = f"{state}, status {fabric.get('status')}"
    if states:
        told = "; ".join(f"device {index}: {state}" for index, state in sorted(states.items()))
        if in_a_row(memory, "fabric", True) > 1:
            found.append(
                wrong("FabricManager", "FabricNotReady", f"fabric is not ready: {told}", "error", Remedy.REBOOT)
            )
    else:
        in_a_row(memory, "fabric", False)
    return found


def speed(scene: Scene, memory: Memory) -> list[Condition]:
    """Throttled clocks and a narrow or slow PCIe link, when they last. A link may slow down while its device idles."""
    found = []
    for device in scene.found.devices:
        details, index = device.details, device.index
        reasons = [one for one in details.get("throttle_active") or () if one.startswith(("hw_", "sw_thermal"))]
        if in_a_row(memory, f"throttle{index}", bool(reasons)) >= 3:
            found.append(
                wrong("Throttled", "ClocksThrottled", f"clocks are held down: {', '.join(reasons)}", device=index)
            )
        pcie = details.get("pcie") or {}
        width, widest, gen, best = (pcie.get(name) for name in ("width", "width_max", "gen", "gen_max"))
        if in_a_row(memory, f"width{index}", bool(width and widest and width < widest)) >= 2:
            message = f"PCIe link is x{width} of x{widest}"
            found.append(wrong("PcieLink", "PcieNarrow", message, "error", Remedy.REBOOT, device=index))
        busy = bool(details.get("processes")) and bool(gen and best and gen < best)
        if in_a_row(memory, f"gen{index}", busy) >= 3:
            message = f"PCIe link is generation {gen} of {best} though the device works"
            found.append(wrong("PcieLink", "PcieSlow", message, device=index))
    return found


def leftovers(scene: Scene, memory: Memory) -> list[Condition]:
    """Memory or processes on a device that no worker has."""
    found = []
    for device in scene.found.devices:
        used, processes = device.details.get("used_mib"), device.details.get("processes") or []
        has = device.index not in scene.held and (
            bool(processes) or (isinstance(used, int) and used > LEFTOVER_MIB and device.memory_mib is not None)
        )
        if device.details.get("mig") == "Enabled":
            has = False
        if in_a_row(memory, f"left{device.index}", has) >= 2:
            pids = ", ".join(str(one.get("pid") if isinstance(one, dict) else one) for one in processes[:8])
            by = f" by process {pids}" if pids else " and no process that holds it is seen"
            message = f"{used} MiB are in use{by}, though no worker has the device"
            found.append(wrong("Leftover", "DeviceMemoryInUse", message, "error", device=device.index))
    return found


def verdicts(scene: Scene, memory: Memory) -> list[Condition]:
    """What its own tool calls unhealthy, of whatever vendor, where nothing above has said it better."""
    found = []
    for device in scene.found.devices:
        if device.healthy is False and device.problems and all(one.startswith(_PORT) for one in device.problems):
            message = "; ".join(device.problems)
            found.append(wrong("RdmaPort", "PortDown", message, "error", device=device.index))
        elif device.healthy is False:
            message = "; ".join(device.problems) or "its tool calls it unhealthy"
            found.append(
                wrong("DeviceUnhealthy", "DeviceUnhealthy", message, "fatal", Remedy.RESET, device=device.index)
            )
    return found


def _camel(words: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in words.replace("-", " ").replace("_", " ").split())[:40]


CHECKS: Final = (
    Check("device-count", PERIOD, TIMEOUT, count, virtual=True),
    Check("device-recovery", PERIOD, TIMEOUT, recovery, virtual=True),
    Check("device-memory", PERIOD, TIMEOUT, memory_errors, virtual=True),
    Check("device-links", PERIOD, TIMEOUT, links, virtual=True),
    Check("device-speed", PERIOD, TIMEOUT, speed, virtual=True),
    Check("device-leftovers", PERIOD, TIMEOUT, leftovers, virtual=True),
    Check("device-verdicts", PERIOD, TIMEOUT, verdicts, virtual=True),
)
