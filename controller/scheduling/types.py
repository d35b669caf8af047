"""The planner's data: requests and placements in, decision groups and reasons out.

    index = apply(index, changes)        (controller.scheduling.index)
    plan  = plan(index, now) -> Plan     (controller.scheduling.planner)

Both are pure: no clock, no randomness, no I/O. The same input in any order gives the same plan; ties
break by name.
"""

from msgspec import Struct

from muster.reasons import Waiting


class DeviceRequest(Struct, frozen=True):
    """Devices of each worker: a catalogue type and a count."""

    type: str
    count: int


class GangRequest(Struct, frozen=True, kw_only=True):
    """One restart scope that wants to start, all workers or none. `options` are the acceptable accelerator
    kinds in order (empty: no devices needed), each with its own number of workers. `preferred` nodes are
    taken where they still fit; `excluded` are never taken. Order: repairs first, then priority (high first),
    then `queued_at`, then name."""

    job_uid: str
    namespace: str
    name: str
    scope: str = "gang"
    queue: str = "default"
    priority: int = 0
    queued_at: float = 0.0
    repair: bool = False
    options: tuple[tuple[DeviceRequest | None, int], ...] = ()
    cpu_milli: int = 0
    memory: int = 0
    max_per_node: int = 1
    required_level: str | None = None
    preferred_level: str | None = None
    preferred: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


class WorkerPlacement(Struct, frozen=True):
    """One worker's node and devices. The order of the workers is the rank order along the fabric."""

    node: str
    devices: tuple[int, ...] = ()


class Start(Struct, frozen=True, kw_only=True):
    """Start this gang here."""

    job_uid: str
    scope: str
    device_type: str | None
    workers: tuple[WorkerPlacement, ...]
    domain: str = ""  # the tightest fabric domain that holds them all, for people


class DecisionGroup(Struct, frozen=True, kw_only=True):
    """Committed whole or dropped whole: victims (later) plus the beneficiary. `reads` are the nodes whose
    state the decision rests on."""

    start: Start
    reads: tuple[str, ...] = ()


class Wait(Struct, frozen=True, kw_only=True):
    """Why a job is not running: the binding code first, a sentence with the numbers, what would help."""

    job_uid: str
    code: Waiting
    message: str
    others: tuple[Waiting, ...] = ()
    helps: str = ""


class Plan(Struct, frozen=True):
    groups: tuple[DecisionGroup, ...] = ()
    waits: tuple[Wait, ...] = ()
