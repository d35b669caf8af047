"""NVIDIA: whatever its tool printed is told apart by what it looks like."""

from typing import Final

from agents.devices import matrix, nvidia_q, nvidia_smi
from agents.devices.vendor import Question, Vendor
from muster.inspection import Inspection

VENDOR = "nvidia"
LIVE: Final = Vendor(
    name=VENDOR,
    library="agents.devices.nvml",
    driver="/dev/nvidiactl",
    spared=("nvidia_q",),
    questions=(
        Question("nvidia_q", ("nvidia-smi", "-q", "-x"), (("nvidia-smi",),)),
        Question("nvidia_topo", ("nvidia-smi", "topo", "-m")),
    ),
    node=r"/dev/nvidia(\d+)",
    reset=("nvidia-smi", "--gpu-reset", "-i"),
    reset_by="uuid",
)


def read(text: str) -> Inspection:
    found = Inspection()
    if matrix.read(text, found, VENDOR) or nvidia_q.read(text, found) or nvidia_smi.read(text, found):
        return found
    found.half("nothing of nvidia-smi was recognised" if text.strip() else "the output is empty")
    return found
