"""All vendors, in the order in which their devices are numbered: what is asked of each. Readers are loaded when there is
something to read."""

import shutil
from pathlib import Path
from typing import Final

from agents.devices.vendor import Question, Vendor
from muster.inspection import Inspection

_PORT: Final = ("ip", "link", "net_health", "link_stat", "optical", "stat")
_HCCN: Final = "/usr/local/Ascend/driver/tools/hccn_tool"


def _ports(found: Inspection) -> tuple[Question, ...]:
    """The RoCE port of each Ascend device."""
    tool = shutil.which("hccn_tool") or _HCCN
    return tuple(
        Question("ascend_hccn", (tool, "-i", str(device.index), f"-{topic}", "-g"))
        for device in found.devices
        for topic in _PORT
    )


def _amdgpu(sys: Path) -> Inspection:
    """What the amdgpu driver shows."""
    if not (sys / "class/kfd").is_dir() and not (sys / "class/drm").is_dir():
        return Inspection()
    from agents.devices.amd_kernel import read_kernel

    return read_kernel(sys)


NVIDIA: Final = Vendor(
    name="nvidia",
    library="agents.devices.nvml",
    driver="/dev/nvidiactl",
    spared=("nvidia_q",),
    questions=(
        Question("nvidia_q", ("nvidia-smi", "-q", "-x"), (("nvidia-smi",),)),
        Question("nvidia_topo", ("nvidia-smi", "topo", "-m")),
    ),
    reset=("nvidia-smi", "--gpu-reset", "-i"),
    reset_by="uuid",
)
AMD: Final = Vendor(
    name="amd",
    questions=(
        Question("rocm", ("amd-smi", "static", "--json"), (("rocm-smi", "-a", "--json"),)),
        Question("rocm", ("amd-smi", "metric", "--ecc", "--json")),
        Question("rocm", ("rocm-smi", "--showtopo"), (("amd-smi", "topology"),)),
    ),
    kernel=_amdgpu,
    reset=("amd-smi", "reset", "--gpureset", "--gpu"),
)
ASCEND: Final = Vendor(
    name="ascend",
    questions=(
        Question("ascend_npu_smi", ("npu-smi", "info")),
        Question("ascend_topo", ("npu-smi", "info", "-t", "topo")),
    ),
    more=_ports,
    reset=("npu-smi", "set", "-t", "reset", "-m", "1"),
    reset_by="card",
)
VENDORS: Final[tuple[Vendor, ...]] = (
    NVIDIA,
    AMD,
    ASCEND,
    Vendor(name="cambricon", questions=(Question("cambricon", ("cnmon",)),), node=r"/dev/cambricon_dev(\d+)"),
    Vendor(name="gaudi", questions=(Question("gaudi", ("hl-smi",)),), node=r"/dev/accel/accel(\d+)"),
    Vendor(name="hygon", questions=(Question("hygon", ("hy-smi",)),), reset=("hy-smi", "--gpureset", "-d")),
    Vendor(name="metax", questions=(Question("metax", ("mx-smi",)),)),
    Vendor(name="mthreads", questions=(Question("mthreads", ("mthreads-gmi",)),), node=r"/dev/mtgpu\.(\d+)"),
)
BY_NAME: Final = {vendor.name: vendor for vendor in VENDORS}
