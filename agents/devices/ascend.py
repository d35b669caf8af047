"""Ascend: what `npu-smi`, `hccn_tool` and the topology matrix print is told apart by what it looks like."""

import re

from agents.devices import hccn, matrix, npu_smi
from muster.inspection import Inspection

VENDOR = "ascend"


def read(text: str) -> Inspection:
    found = Inspection()
    if matrix.read(text, found, VENDOR):
        _numa_of_ranges(found)
    elif not (hccn.read(text, found) or npu_smi.read(text, found)):
        found.half("nothing of npu-smi or hccn_tool was recognised" if text.strip() else "the output is empty")
    return found


def _numa_of_ranges(found: Inspection) -> None:
    """The matrix has no NUMA column. Where all affinities are whole ranges of one width, aligned to it, each range is
    one NUMA node of a machine whose nodes have that many cores."""
    ranges = {}
    for device in found.devices:
        match = re.fullmatch(r"(\d+)-(\d+)", device.cpus or "")
        if not match:
            return
        ranges[device.index] = (int(match.group(1)), int(match.group(2)))
    widths = {last - first + 1 for first, last in ranges.values()}
    if len(widths) != 1 or len(set(ranges.values())) < 2:
        return
    width = widths.pop()
    if width < 1 or any(first % width for first, _ in ranges.values()):
        return
    for device in found.devices:
        device.numa = ranges[device.index][0] // width
        device.details["numa_from"] = f"CPU ranges of {width} cores"
    found.node.details["numa_by_cpu_range"] = {device.cpus: device.numa for device in found.devices}
