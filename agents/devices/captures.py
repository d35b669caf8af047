"""Recorded outputs by kind: each kind has one reader, loaded when it is asked for."""

import importlib
from collections.abc import Callable
from typing import Final

from muster.inspection import Inspection
from muster.plaintext import clean

KINDS: Final[dict[str, str]] = {
    "nvidia_smi": "agents.devices.nvidia",
    "nvidia_q": "agents.devices.nvidia",
    "nvidia_topo": "agents.devices.nvidia",
    "ascend_npu_smi": "agents.devices.ascend",
    "ascend_hccn": "agents.devices.ascend",
    "ascend_topo": "agents.devices.ascend",
    "cambricon": "agents.devices.cambricon",
    "gaudi": "agents.devices.gaudi",
    "hygon": "agents.devices.hygon",
    "metax": "agents.devices.metax",
    "mthreads": "agents.devices.mthreads",
    "rocm": "agents.devices.amd",
    "rdma": "agents.devices.rdma",
    "kernel_log": "agents.health.kernel_log",
    "fabric": "muster.fabric.capture",
    "k8s_nodes": "muster.fabric.kubernetes",
}


def read_capture(kind: str, raw: bytes | str) -> Inspection:
    """Never raises for what is in `raw`. Raises KeyError when there is no such kind."""
    module = importlib.import_module(KINDS[kind])
    reader: Callable[[str], Inspection] = module.read
    plain = clean(raw)
    try:
        found = reader(plain.text)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        found = Inspection()
        found.half(f"not understood: {type(error).__name__}: {error}"[:200])
    for problem in plain.problems:
        found.half(problem)
    return found
