"""Hygon: `hy-smi`, and the `rocm-smi` of its toolkit, which counts memory in MiB."""

from typing import Final

from agents.devices import rocm
from agents.devices.vendor import Question, Vendor
from muster.inspection import Inspection

VENDOR = "hygon"
LIVE: Final = Vendor(name=VENDOR, questions=(Question("hygon", ("hy-smi",)),), reset=("hy-smi", "--gpureset", "-d"))


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
