"""Typed evidence: what nodes, ranks, devices and files say about a failure.

Agents and the Kubernetes executor produce it, `controller.recovery` reads it. Ranks' own reports are
untrusted: they are limited in size and never become a path that is opened with more rights than theirs.
"""

from enum import StrEnum
from typing import Any

import msgspec


class Source(StrEnum):
    EXIT = "exit"  # a process ended: data {code, signal, oom}
    LOG = "log"  # the tail of a rank's log: text
    KERNEL = "kernel"  # a kernel line about this node: text, data {code}
    DEVICE = "device"  # a device counter or condition
    CONDITION = "condition"  # a node condition turned bad
    NODE = "node"  # the node itself: lost, new boot id, returned
    PROGRESS = "progress"  # data {step, loss, phase}
    CHECKPOINT = "checkpoint"  # data {path, complete}
    LAUNCH = "launch"  # the agent could not start the worker: data {code}
    STACK = "stack"
    COLLECTIVE = "collective"


class Evidence(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One observation. `at` is UTC seconds; `rank` is the global rank, None for a whole worker."""

    source: Source
    at: float
    attempt: str = ""
    node: str = ""
    role: str = ""
    worker: int | None = None
    rank: int | None = None
    device: int | None = None
    text: str = ""
    data: dict[str, Any] = {}
    certainty: float = 1.0
