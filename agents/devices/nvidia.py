"""NVIDIA: whatever its tool printed is told apart by what it looks like."""

from agents.devices import matrix, nvidia_q, nvidia_smi
from muster.inspection import Inspection

VENDOR = "nvidia"


def read(text: str) -> Inspection:
    found = Inspection()
    if matrix.read(text, found, VENDOR) or nvidia_q.read(text, found) or nvidia_smi.read(text, found):
        return found
    found.half("nothing of nvidia-smi was recognised" if text.strip() else "the output is empty")
    return found
