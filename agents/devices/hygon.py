"""Hygon: `hy-smi`, and the `rocm-smi` of its toolkit, which counts memory in MiB."""

from agents.devices import rocm
from muster.inspection import Inspection

VENDOR = "hygon"


def read(text: str) -> Inspection:
    found = Inspection()
    known = rocm.read_json(text, found, VENDOR) or any(
        [rocm.read_lines(text, found, VENDOR), rocm.read_table(text, found, VENDOR)]
    )
    if not known:
        found.half("nothing of hy-smi was recognised" if text.strip() else "the output is empty")
    elif not found.devices:
        found.half("a header without devices")
    return found
