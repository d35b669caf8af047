"""NVIDIA by its library, run as `python -m agents.devices.nvml`: a library that hangs takes its own process only.

Prints an inspection as JSON; exit status 3 when there is no library or it refuses.
"""

import sys
from collections.abc import Callable
from typing import Any

from muster.inspection import FoundDevice, Inspection, to_json


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


def _device(nvml: Any, handle: Any, device: FoundDevice) -> None:
    device.model = _ask(nvml.nvmlDeviceGetName, handle)
    memory, pci = _ask(nvml.nvmlDeviceGetMemoryInfo, handle), _ask(nvml.nvmlDeviceGetPciInfo, handle)
    if memory is not None:
        device.memory_mib = memory.total >> 20
        device.details["used_mib"] = memory.used >> 20
    if pci is not None:
        device.bus = pci.busId.decode() if isinstance(pci.busId, bytes) else str(pci.busId)
    numa = _ask(nvml.nvmlDeviceGetNumaNodeId, handle)
    device.numa = numa if isinstance(numa, int) and numa >= 0 else None
    remap = _ask(nvml.nvmlDeviceGetRemappedRows, handle)
    mig = _ask(nvml.nvmlDeviceGetMigMode, handle)
    device.details |= {
        "uuid": _ask(nvml.nvmlDeviceGetUUID, handle),
        "serial": _ask(nvml.nvmlDeviceGetSerial, handle),
        "temperature_c": _ask(nvml.nvmlDeviceGetTemperature, handle, 0),
        "remap": dict(zip(("corr", "uncorr", "pending", "failure"), (*remap[:2], *map(bool, remap[2:4])), strict=True))
        if remap
        else None,
        "ecc_uncorr": _ask(nvml.nvmlDeviceGetTotalEccErrors, handle, 1, 0),
        "mig": None if mig is None else "Enabled" if mig[0] else "Disabled",
        "pcie": {
            "width": _ask(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle),
            "width_max": _ask(nvml.nvmlDeviceGetMaxPcieLinkWidth, handle),
        },
        "processes": [process.pid for process in _ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()],
    }
    device.healthy = True
    if remap and remap[3]:
        device.healthy = False
        device.problems.append("failed: row remapping failed: replace the GPU")
    elif remap and remap[2]:
        device.problems.append("degraded: a row remap waits for a reset")
    if device.details["ecc_uncorr"]:
        device.healthy = False
        device.problems.append(f"{device.details['ecc_uncorr']} uncorrected ECC errors since the last reset")


if __name__ == "__main__":
    sys.exit(main())
