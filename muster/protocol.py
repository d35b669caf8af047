"""The agent protocol: one outbound WebSocket from each agent to the API, JSON text frames.

Every frame is an `Up` (agent to API) or a `Down` (API to agent), tagged by `type`, inside a versioned
envelope. Desired state is level-triggered: `Desired` always holds everything this node should run, so a
lost or repeated frame does no harm. Reports carry a sequence number and are repeated until `Ack`ed, and
the API acknowledges only after commit. Unknown fields are ignored, so N and N-1 understand each other.
"""

from typing import Any

import msgspec

from muster.conditions import Condition
from muster.evidence import Evidence
from muster.launch import LaunchTemplate


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type"):
    """What all frames share."""


class Device(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """One accelerator. `group` is its intra-node interconnect domain, `numa` its NUMA node. Devices of one `card`
    are only given out together. `nic` is the index of the network interface on its own switch: its rail. `nics` are
    the names of the RDMA interfaces nearest to it. `parts` are its isolated parts (MIG), as the driver names them."""

    index: int
    type: str  # catalogue name, e.g. "h100"
    vendor: str = ""
    model: str = ""
    memory_mib: int | None = None
    uuid: str | None = None
    bus: str | None = None
    numa: int | None = None
    group: int | None = None
    card: int | None = None
    nic: int | None = None
    healthy: bool = True
    virtual: bool = False
    problems: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()


class Nic(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One RDMA port. `name` is the device's (mlx5_0; mlx5_0/2 for its second port), `netdev` its network interface.
    `link_layer` is InfiniBand or Ethernet, `state` active, down, init, armed; `rate_gbps` what the port says."""

    name: str
    netdev: str | None = None
    link_layer: str | None = None
    state: str | None = None
    rate_gbps: float | None = None
    numa: int | None = None
    rail: int | None = None
    bus: str | None = None
    virtual_function: bool = False


class Inventory(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a node has. CPU in thousandths of a core, memory in bytes. `host` identifies the network stack:
    two agents with the same `host` share one port space. `labels` carry fabric levels, e.g.
    {"muster.dev/block": "b0", "muster.dev/leaf": "b0-l1"}."""

    address: str
    host: str
    cpu_milli: int
    memory: int
    devices: tuple[Device, ...] = ()
    labels: dict[str, str] = {}
    interface: str = "lo"
    ephemeral_ports: tuple[int, int] = (32768, 60999)
    nics: tuple[Nic, ...] = ()
    problems: tuple[str, ...] = ()  # what could not be found out: a missing driver, a tool that hangs, an unknown model


class Lease(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Lease times in seconds. Renew every `renew`; Unknown after `unknown` without renewal; shims stop their
    ranks `fence` after the *send* time of the last acknowledged renewal; Lost after `fence + margin`."""

    renew: float = 5.0
    unknown: float = 15.0
    fence: float = 300.0
    margin: float = 5.0


class Origin(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a database that was lost would have to know of a job and its attempt, beside what the assignment itself
    says. Nothing in it changes while the attempt lives, but for labels and annotations. `workers` counts the gang."""

    spec: dict[str, Any]
    workers: int
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    user: str = ""
    generation: int = 1
    created_at: float = 0.0
    queued_at: float = 0.0
    restarts: int = 0
    no_progress: int = 0
    best_step: int | None = None
    rendezvous: str = ""
    placed_at: float = 0.0


class Assignment(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One worker that this node should have. `desired` is one of prepare, run, stop. `revision` grows when the
    template changes before the start (new ports). `fence` is this job's, in seconds; None means never."""

    worker_uid: str
    attempt: str
    job: str
    job_uid: str
    namespace: str
    scope: str
    number: int
    epoch: int
    role: str
    index: int
    desired: str
    revision: int
    template: LaunchTemplate
    devices: tuple[int, ...] = ()
    fence: float | None = 300.0
    grace: float = 30.0
    stop_reason: str = ""
    token: str = ""
    checkpoint_directory: str | None = None
    checkpoint_format: str = "auto"
    log_limit: int = 256 * 2**20
    failing: bool = False  # it is stopped because something of its gang has failed: what it did is of interest
    ports: tuple[int, ...] = ()
    cpu_milli: int = 0
    memory: int = 0
    origin: Origin | None = None
    examine: str = ""
    """A look at its processes that the controller asks for, by its uid: stacks, states, flight recorders."""


class RankExit(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How one process of a worker ended. `rank` is global; None when the process holds several ranks."""

    process: int
    rank: int | None = None
    code: int | None = None
    signal: int | None = None
    oom: bool = False
    at: float = 0.0


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A worker as its agent sees it now. `phase` is a WorkerPhase; Exited only when every process is dead."""

    worker_uid: str
    attempt: str
    epoch: int
    phase: str
    at: float
    revision: int = 0
    exits: tuple[RankExit, ...] = ()
    message: str = ""
    problem: str = ""  # a code, e.g. PORT_BUSY, NO_SUCH_COMMAND, WORKDIR_MISSING, DISK_FULL, VANISHED, FENCED
    busy_ports: tuple[int, ...] = ()
    examined: str = ""  # the look that was asked for last is over, and what it found has been told


class CheckpointItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One checkpoint found on disk. `manifest` maps relative file names to sizes in bytes."""

    path: str
    step: int
    format: str
    complete: bool
    size: int = 0
    modified_at: float = 0.0
    manifest: dict[str, int] = {}
    why: str = ""  # what is missing when it is not complete


class ProgressPoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`seconds`: of this rank's own work at the step, without waiting for others. `mark`: no new step, only `phase` has
    begun; `step` is then the last one, -1 before the first. `bad`: the loss was nan, inf or -inf."""

    step: int
    at: float
    rank: int | None = None
    loss: float | None = None
    phase: str = ""
    seconds: float | None = None
    mark: bool = False
    bad: str = ""


class NodeTask(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One thing that a repair asks of this node's agent, done once: `do` is reset (of `devices`, which must be free) or
    check (look at everything anew, and forget what was only ever said by the kernel about `devices` and the node)."""

    uid: str
    do: str
    devices: tuple[int, ...] = ()


class TaskResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`ok`: it was done, and for a check: nothing that blocks was found."""

    uid: str
    ok: bool
    message: str = ""
    at: float = 0.0


# -- agent to API ------------------------------------------------------------------------------------


class Hello(_Wire, frozen=True, kw_only=True, tag="hello"):
    """First frame of a stream. `observed` is the last desired generation acted upon; `cluster` names the database that
    it was of."""

    v: int
    node: str
    boot_id: str
    agent_version: str
    inventory: Inventory
    observed: int = 0
    workers: tuple[WorkerReport, ...] = ()
    conditions: tuple[Condition, ...] | None = None
    cluster: str = ""


class LiveWorker(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A worker that a node has: what its agent was told, and how it is."""

    assignment: Assignment
    report: WorkerReport


class Stock(_Wire, frozen=True, kw_only=True, tag="stock"):
    """All that a node has, for a database that does not know it: sent when `Welcome` asks, and again at each change.
    `epochs`: the highest that the node has seen of each restart scope, by "job uid/scope"."""

    workers: tuple[LiveWorker, ...] = ()
    epochs: dict[str, int] = {}


class Renew(_Wire, frozen=True, kw_only=True, tag="renew"):
    """Lease renewal; `sent` is the agent's CLOCK_BOOTTIME in seconds, echoed by `Renewed`."""

    seq: int
    sent: float
    observed: int = 0


class Report(_Wire, frozen=True, kw_only=True, tag="report"):
    """Facts, repeated until acknowledged. `seq` grows by one for each report of this node and boot."""

    seq: int
    workers: tuple[WorkerReport, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    progress: dict[str, tuple[ProgressPoint, ...]] = {}  # by attempt uid
    checkpoints: dict[str, tuple[CheckpointItem, ...]] = {}  # by attempt uid: the whole stock now
    inventory: Inventory | None = None
    conditions: tuple[Condition, ...] | None = None  # all that hold now; None: as before
    results: tuple[TaskResult, ...] = ()


class LogChunk(_Wire, frozen=True, kw_only=True, tag="log"):
    """A piece of a log file. `offset` in bytes makes a repeat harmless. `rank` None is the worker's own stream."""

    worker_uid: str
    attempt: str
    rank: int | None = None
    offset: int
    data: str


Up = Hello | Renew | Report | LogChunk | Stock


# -- API to agent ------------------------------------------------------------------------------------


class Welcome(_Wire, frozen=True, kw_only=True, tag="welcome"):
    """`cluster` names the database. `take_stock`: it is not the one that this node knew, so send a `Stock`. `held`:
    until an operator has decided what becomes of it, nothing is desired and nothing is acknowledged but renewals."""

    v: int
    lease: Lease
    generation: int = 0
    cluster: str = ""
    take_stock: bool = False
    held: bool = False


class Renewed(_Wire, frozen=True, kw_only=True, tag="renewed"):
    """The renewal `seq` is committed: the lease runs from `sent`. `at` is the API's own time, UTC seconds; 0: not told."""

    seq: int
    sent: float
    at: float = 0.0


class Desired(_Wire, frozen=True, kw_only=True, tag="desired"):
    """Everything this node should have at `generation`. A worker that is not listed is to be stopped at once and
    forgotten when it is dead."""

    generation: int
    assignments: tuple[Assignment, ...] = ()
    tasks: tuple[NodeTask, ...] = ()


class Ack(_Wire, frozen=True, kw_only=True, tag="ack"):
    seq: int


class LogAck(_Wire, frozen=True, kw_only=True, tag="logAck"):
    """Bytes from `begin` up to `offset` of this stream are in the log store; None, as an older server says: all before
    `offset`."""

    worker_uid: str
    rank: int | None = None
    begin: int | None = None
    offset: int


class Session(_Wire, frozen=True, kw_only=True, tag="session"):
    """Somebody wants to talk with a worker: the agent is to open `/agent/v1/sessions/{uid}` at its server, where the
    frames of `muster.channels` go both ways. `kind` is exec, attach or portforward; the others belong to one of
    these. `rank` None is the worker's first process."""

    uid: str
    worker_uid: str
    kind: str
    rank: int | None = None
    command: tuple[str, ...] = ()
    tty: bool = False
    stdin: bool = False
    term: str = ""
    columns: int = 80
    rows: int = 24
    port: int = 0


class Refused(_Wire, frozen=True, kw_only=True, tag="refused"):
    """The stream ends: `code` is one of VERSION, TOKEN, NODE_TAKEN."""

    code: str
    message: str


Down = Welcome | Renewed | Desired | Ack | LogAck | Session | Refused

encode = msgspec.json.encode
_up: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Up)
_down: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Down)


def decode_up(frame: bytes | str) -> Hello | Renew | Report | LogChunk | Stock:
    """Raises msgspec.ValidationError (a ValueError) on a frame that is not understood."""
    return _up.decode(frame)  # type: ignore[no-any-return]


def decode_down(frame: bytes | str) -> Welcome | Renewed | Desired | Ack | LogAck | Session | Refused:
    """Raises msgspec.ValidationError (a ValueError) on a frame that is not understood."""
    return _down.decode(frame)  # type: ignore[no-any-return]
