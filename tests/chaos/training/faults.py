"""What is made to happen, and what must follow, by the taxonomy."""

from typing import NamedTuple


class Fault(NamedTuple):
    """`categories` and `actions` of the first verdict that are right. `ends`: the job's last phase. `restarts`: at most.
    `culprit`: its rank must be named. `evicts`: its node must be blamed; else none may be."""

    name: str
    categories: tuple[str, ...]
    actions: tuple[str, ...]
    ends: str = "Succeeded"
    restarts: int = 1
    culprit: bool = True
    evicts: bool = False


FAULTS = (
    Fault("kill", ("crash",), ("restart",)),
    Fault("segv", ("crash",), ("restart",)),
    Fault("loop", ("rank_hung",), ("restart",)),
    Fault("stop", ("rank_hung",), ("restart",)),
    Fault("type_error", ("user_error",), ("fail",), ends="Failed", restarts=0),
    Fault("missing_module", ("user_error",), ("fail",), ends="Failed", restarts=0),
    Fault("silent_error", ("unknown",), ("restart",), ends="Failed"),
    Fault("port", ("port_in_use",), ("retry",)),
    Fault("remote", ("external_service",), ("retry",)),
    Fault("nan", ("not_a_number",), ("restart",)),
    Fault("disk", ("disk_full",), ("hold",), restarts=0),
    Fault("shim", ("worker_vanished",), ("restart",), culprit=False),
    Fault("corrupt", ("crash",), ("restart",), restarts=2),
    Fault("device", ("Drained", "gpu_fallen_off_bus"), ("replace",), restarts=1, culprit=False, evicts=True),
)
