"""NVIDIA by its library, in a process of its own: a library that hangs takes that process only.

`main` prints an inspection as JSON; exit status 3 when there is no library or it refuses.
"""

import ctypes
import sys
from collections.abc import Callable
from typing import Any, Final

from muster.inspection import FoundDevice, Inspection, to_json

RECOVERY_FIELD: Final = 230
"""NVML_FI_DEV_GET_GPU_RECOVERY_ACTION (nvml.h)."""
RECOVERY: Final = {
    1: "GPU Reset",
    2: "Node Reboot",
    3: "Drain P2P",
    4: "Drain and Reset",
    5: "Recover IMEX Domain",
    6: "Bus Reset",
    7: "System Reboot",
}
THROTTLES: Final = {
    0x8: "hw_slowdown",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake",
}
"""Bits of the clocks event reasons that are worth a word (nvml.h)."""
FABRIC: Final = {0: "Not Supported", 1: "Not Started", 2: "In Progress", 3: "Completed"}
MOST_LINKS: Final = 36
MOST_PARTS: Final = 16


def main() -> int:
    try:
        import pynvml

        library: Any = pynvml
        library.nvmlInit()
    except Exception as error:  # an absent package or library, a driver that does not fit: all mean "not this way"
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 3
    sys.stdout.write(to_json(read(library)).decode())
    return 0


def read(nvml: Any) -> Inspection:
    """`nvml` is the initialised module. What a device does not answer is None; one that is lost stays in the list."""
    found = Inspection()
    count = nvml.nvmlDeviceGetCount()
    found.node.details |= {"driver": _ask(nvml.nvmlSystemGetDriverVersion), "attached_gpus": count}
    for index in range(count):
        device = FoundDevice(index=index, vendor="nvidia")
        found.devices.append(device)
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:
            device.healthy = False
            device.problems.append(f"no handle: {error}")
            found.half(f"GPU {index}: {error}")
            continue
        _device(nvml, handle, device)
    return found


def _ask(call: Callable[..., Any], *words: Any) -> Any:
    try:
        answer = call(*words)
    except Exception:  # each library version and board lacks other calls
        return None
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer


def _try(nvml: Any, name: str, *words: Any) -> Any:
    """A call that older libraries do not have."""
    call = getattr(nvml, name, None)
    return None if call is None else _ask(call, *words)


def _device(nvml: Any, handle: Any, device: FoundDevice) -> None:
    device.model = _ask(nvml.nvmlDeviceGetName, handle)
    memory, pci = _ask(nvml.nvmlDeviceGetMemoryInfo, handle), _ask(nvml.nvmlDeviceGetPciInfo, handle)
    if memory is not None:
        device.memory_mib = memory.total >> 20
        device.details["used_mib"] = memory.used >> 20
    if pci is not None:
        device.bus = pci.busId.decode() if isinstance(pci.busId, bytes) else str(pci.busId)
    numa = _try(nvml, "nvmlDeviceGetNumaNodeId", handle)
    device.numa = numa if isinstance(numa, int) and numa >= 0 else None
    remap = _try(nvml, "nvmlDeviceGetRemappedRows", handle)
    flags = (*remap[:2], *map(bool, remap[2:4])) if remap else ()
    mig = _try(nvml, "nvmlDeviceGetMigMode", handle)
    device.details |= {
        "uuid": _ask(nvml.nvmlDeviceGetUUID, handle),
        "serial": _try(nvml, "nvmlDeviceGetSerial", handle),
        "temperature_c": _try(nvml, "nvmlDeviceGetTemperature", handle, 0),
        "remap": dict(zip(("corr", "uncorr", "pending", "failure"), flags, strict=True)) if flags else None,
        "ecc_uncorr": _try(nvml, "nvmlDeviceGetTotalEccErrors", handle, 1, 0),
        "ecc_corr": _try(nvml, "nvmlDeviceGetTotalEccErrors", handle, 0, 0),
        "recovery_action": RECOVERY.get(_field(nvml, handle, RECOVERY_FIELD) or 0),
        "throttle_active": _throttles(nvml, handle),
        "fabric": _fabric(nvml, handle),
        "mig": None if mig is None else "Enabled" if mig[0] else "Disabled",
        "pcie": _pcie(nvml, handle),
        "processes": [
            {"pid": one.pid, "used_mib": one.usedGpuMemory >> 20 if getattr(one, "usedGpuMemory", None) else None}
            for one in _ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
        ],
    }
    if mig is not None and mig[0]:
        device.details["mig_devices"] = _parts(nvml, handle)
    _links(nvml, handle, device)
    _judge(device)


def _pcie(nvml: Any, handle: Any) -> dict[str, Any]:
    calls = {
        "width": "nvmlDeviceGetCurrPcieLinkWidth",
        "width_max": "nvmlDeviceGetMaxPcieLinkWidth",
        "gen": "nvmlDeviceGetCurrPcieLinkGeneration",
        "gen_max": "nvmlDeviceGetMaxPcieLinkGeneration",
        "replays": "nvmlDeviceGetPcieReplayCounter",
    }
    return {name: _try(nvml, call, handle) for name, call in calls.items()}


def _field(nvml: Any, handle: Any, number: int) -> int | None:
    values = _try(nvml, "nvmlDeviceGetFieldValues", handle, [number])
    if not values or values[0].nvmlReturn != 0:
        return None
    return int(values[0].value.uiVal)


def _throttles(nvml: Any, handle: Any) -> list[str] | None:
    bits = _try(nvml, "nvmlDeviceGetCurrentClocksEventReasons", handle)
    if bits is None:
        bits = _try(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return None if bits is None else [name for bit, name in THROTTLES.items() if bits & bit]


def _fabric(nvml: Any, handle: Any) -> dict[str, Any] | None:
    if not hasattr(nvml, "c_nvmlGpuFabricInfo_t"):
        return None
    info = nvml.c_nvmlGpuFabricInfo_t()
    call = getattr(nvml, "nvmlDeviceGetGpuFabricInfo", None)
    try:
        if call is None or call(handle, ctypes.byref(info)) not in (None, 0):
            return None
    except Exception:  # boards without a fabric refuse
        return None
    return {"state": FABRIC.get(int(info.state)), "status": int(info.status)}


def _parts(nvml: Any, handle: Any) -> list[dict[str, Any]]:
    """MIG devices that exist now."""
    parts = []
    for number in range(min(MOST_PARTS, _try(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0)):
        part = _try(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
        if part is not None:
            memory = _ask(nvml.nvmlDeviceGetMemoryInfo, part)
            parts.append(
                {
                    "index": number,
                    "uuid": _ask(nvml.nvmlDeviceGetUUID, part),
                    "name": _ask(nvml.nvmlDeviceGetName, part),
                    "gi": _try(nvml, "nvmlDeviceGetGpuInstanceId", part),
                    "ci": _try(nvml, "nvmlDeviceGetComputeInstanceId", part),
                    "memory_mib": memory.total >> 20 if memory is not None else None,
                }
            )
    return parts


def _links(nvml: Any, handle: Any, device: FoundDevice) -> None:
    """NVLinks that the board has, each with its rate or None when it is down. Boards without any refuse the question."""
    links: dict[str, float | None] = {}
    for number in range(MOST_LINKS):
        state = _try(nvml, "nvmlDeviceGetNvLinkState", handle, number)
        if state is None:
            break
        links[str(number)] = 1.0 if state else None
    if links and any(links.values()):  # all down: links that nobody has connected
        down = sum(rate is None for rate in links.values())
        device.details |= {"links": links, "link_count": len(links), "inactive_links": down}


def _judge(device: FoundDevice) -> None:
    device.healthy = True
    remap, details = device.details["remap"], device.details
    if details["recovery_action"]:
        device.healthy = False
        device.problems.append(f"the driver asks for recovery: {details['recovery_action']}")
    if remap and remap["failure"]:
        device.healthy = False
        device.problems.append("failed: row remapping failed: replace the GPU")
    elif remap and remap["pending"]:
        device.problems.append("degraded: a row remap waits for a reset")
    if details["ecc_uncorr"]:
        device.healthy = False
        device.problems.append(f"{details['ecc_uncorr']} uncorrected ECC errors since the last reset")
    if details.get("inactive_links"):
        device.healthy = False
        device.problems.append(f"{details['inactive_links']} of {details['link_count']} NVLinks are down")
    if details["mig"] == "Enabled" and not details["mig_devices"]:
        device.problems.append("MIG is on and no instance exists: nothing can run on it")


if __name__ == "__main__":
    sys.exit(main())
