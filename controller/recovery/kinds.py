"""What a line can mean, whoever printed it."""

import re
from enum import StrEnum

from msgspec import Struct


class Kind(StrEnum):
    """Its value is the category of the verdict; `controller.recovery.policy` says what each leads to."""

    DISK_FULL = "disk_full"
    DEVICE = "device_fault"
    HOST_FAULT = "host_fault"
    NODE_SETUP = "node_misconfigured"
    SHARED_MEMORY = "shared_memory"
    ENGINE_DEAD = "serving_engine_dead"
    HOST_OOM = "host_oom"
    GPU_LEFTOVER = "gpu_memory_leftover"
    GPU_OOM = "gpu_oom"
    PREEMPTED = "preempted"
    PORT_IN_USE = "port_in_use"
    CHECKPOINT_CORRUPT = "checkpoint_corrupt"
    WORLD_SIZE = "checkpoint_world_size"
    CHECKPOINT_MISMATCH = "checkpoint_mismatch"
    STORAGE = "storage"
    LIMITS = "limits"
    ACCESS = "access_denied"
    EXTERNAL = "external_service"
    NAN = "not_a_number"
    DESYNC = "collective_mismatch"
    START_TIMEOUT = "startup_timeout"
    CONTAINER_DEVICE = "container_lost_device"
    DEVICE_CODE = "device_code"
    NETWORK_SETUP = "network_setup"
    TEARDOWN = "teardown"
    PEERS = "collective"
    CRASH = "crash"
    USER_ERROR = "user_error"


class Signature(Struct, frozen=True):
    """A kind of line, and in words what it says. `category` is finer than the kind where an operator would ask for
    the difference; a group named `rank` in the pattern names the rank that is to blame."""

    kind: Kind
    pattern: re.Pattern[str]
    says: str
    category: str = ""


def signature(kind: Kind, pattern: str, says: str, category: str = "") -> Signature:
    return Signature(kind, re.compile(pattern, re.IGNORECASE | re.MULTILINE), says, category)
