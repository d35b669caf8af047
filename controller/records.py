"""What the controller knows of each thing: frozen values, read from the store and passed to the pure rooms.

Times are UTC seconds. A record changes only by `msgspec.structs.replace` and a write through the store.
Every record carries namespace and uid where it has one; `revision` is the change that wrote it last. Records hold no
circles, so that the garbage collector need not look into them (`gc=False`): a large cluster has millions.
"""

from typing import Any, Literal

from msgspec import Struct

from muster.conditions import Condition
from muster.launch import LaunchTemplate
from muster.protocol import Device, Nic, RankExit, TaskResult
from muster.reasons import End, Waiting
from muster.states import AttemptPhase, JobPhase, NodePhase, RepairPhase, WorkerPhase

GANG = "gang"
"""The restart scope of a job that is one gang."""


class Claim(Struct, frozen=True, kw_only=True, gc=False):
    """Room promised to a job: the nodes of its workers in rank order, and the workers (uids) that were told to go, its
    own where it is itself moved or resized. Who was told is expected to be gone at `deadline`."""

    nodes: tuple[str, ...]
    vacating: tuple[str, ...]
    made_at: float = 0.0
    deadline: float | None = None


class Promise(Struct, frozen=True, kw_only=True, gc=False):
    """When a waiting job starts at the latest, as far as the limits of what runs say, and where."""

    at: float
    nodes: tuple[str, ...]


class Waited(Struct, frozen=True, kw_only=True, gc=False):
    """Why a job waits, as the planner said last: the code that binds, a sentence with the numbers, the codes that
    apply as well, what would help, the numbers by name. `since`: when this code began to bind, UTC seconds."""

    code: Waiting
    message: str
    others: tuple[Waiting, ...] = ()
    helps: tuple[str, ...] = ()
    numbers: dict[str, int] = {}
    since: float = 0.0


class Unmet(Struct, frozen=True):
    """A job of `after` whose condition is not true. `phase`: of the newest job of that name, empty where there is none."""

    job: str
    condition: str
    phase: str = ""


class RestartFrom(Struct, frozen=True, kw_only=True, gc=False):
    """Its user asked for a start from `step` (0: from the beginning): checkpoints beyond it count only where attempts
    after `epoch` made them."""

    step: int
    epoch: int


class JobRecord(Struct, frozen=True, kw_only=True, gc=False):
    """`spec` is the validated manifest's spec in its wire form. `suspend` and `cancel` are the user's wishes;
    `phase` is where the loop has brought the job. `excluded` are nodes that a verdict ruled out for the next
    attempt, `preferred` those to go back to."""

    uid: str
    namespace: str
    name: str
    spec: dict[str, Any]
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    user: str = ""
    generation: int = 1
    warnings: tuple[str, ...] = ()
    """What its user was told when it was accepted, e.g. that it fits no cluster as large as this one."""
    phase: JobPhase = JobPhase.QUEUED
    reason: str = ""
    message: str = ""
    suspend: bool = False
    cancel: bool = False
    restart_requested: bool = False
    restart_from: RestartFrom | None = None
    wished_at: float | None = None
    """When its user last asked for anything of the three above; no wish waits longer than its deadline."""
    epoch: int = 0
    epoch_floor: int = 0
    """The highest epoch that any agent has seen of it, where that may be more than `epoch`: after the database went
    back to an older backup. The next attempt goes beyond both."""
    attempt_uid: str | None = None
    restarts: int = 0
    no_progress: int = 0
    best_step: int | None = None
    last_failure: str = ""
    preferred: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    priority: int | None = None
    """Of its class when it was submitted; None: by the name of its class."""
    preempts: bool = True
    """Whether it may evict jobs of lower priority."""
    met: tuple[str, ...] = ()
    """Jobs of `after` whose condition has come true; it stays true."""
    unmet: tuple[Unmet, ...] | None = None
    """The others, as they were when it was last looked; None: not yet."""
    parent: str = ""
    """Uid of the array that it is an element of."""
    element: int | None = None
    """Its index in that array."""
    made: int = 0
    """Of an array: how many of its elements have been made, in their order."""
    claim: Claim | None = None
    promise: Promise | None = None
    wait: Waited | None = None
    """What kept it from starting when it was planned last. Only of interest while it waits."""
    created_at: float = 0.0
    queued_at: float = 0.0
    """Its place in the queue: kept through requeues, new only after its user resumed it."""
    recovering_since: float | None = None
    attained: float = 0.0
    """Service of its attempts that are over, in device-seconds."""
    started_at: float | None = None
    finished_at: float | None = None
    number: int = 0
    """Given by the database when it is inserted; 0 until it is read again."""
    revision: int = 0


class Verdict(Struct, frozen=True, kw_only=True, gc=False):
    """Who was at fault and what to do. `action` is one of record, retry, restart, replace, drain, hold, fail,
    previous_checkpoint, original_world_size. `why` is a sentence for people; `decided_by` quotes the evidence."""

    category: str
    action: str
    why: str
    culprit_nodes: tuple[str, ...] = ()
    culprit_rank: int | None = None
    node_at_fault: bool | None = None
    certainty: Literal["confirmed", "likely", "possible"] = "likely"
    decided_by: tuple[str, ...] = ()
    fingerprint: str = ""
    """The same kind of end gives the same fingerprint, whatever the epoch, pid or time."""


class ResumePoint(Struct, frozen=True, kw_only=True, gc=False):
    """The checkpoint an attempt starts from."""

    path: str
    step: int
    checkpoint_uid: str = ""


class Suspicion(Struct, frozen=True, kw_only=True, gc=False):
    """No progress for longer than this job's own times allow. `uid` names the look at all ranks that was asked for."""

    uid: str
    at: float
    silence: float
    limit: float
    phase: str = ""
    rank: int | None = None
    """The one rank that stays behind, where the others go on."""


class Watch(Struct, frozen=True, kw_only=True, gc=False):
    """How an attempt gets on. `at`: its last sign of progress, `phase` (empty: training) began at `since`, both by the
    API's clock; `paces` are the last silences between signs, in seconds, by phase. `told`: what was said of its loss."""

    at: float = 0.0
    phase: str = "start"
    since: float = 0.0
    paces: dict[str, tuple[float, ...]] = {}
    losses: tuple[float, ...] = ()
    told: tuple[str, ...] = ()
    suspect: Suspicion | None = None


class AttemptRecord(Struct, frozen=True, kw_only=True, gc=False):
    """One run of a restart scope on one placement. The timeline: placed, launching, running, detected (the first
    evidence of its end reached the controller), stopping, ended (every process confirmed dead), decided."""

    uid: str
    job_uid: str
    namespace: str
    job_name: str
    scope: str
    number: int
    epoch: int
    rendezvous: str
    phase: AttemptPhase = AttemptPhase.PLACED
    reason: End | None = None
    message: str = ""
    resume: ResumePoint | None = None
    verdict: Verdict | None = None
    first_step: int | None = None
    last_step: int | None = None
    loss: float | None = None
    redone_steps: int = 0
    succeeded: int = 0
    """Workers that have ended well while the gang goes on: they count towards its minimum and hold nothing."""
    placed_at: float = 0.0
    launching_at: float | None = None
    running_at: float | None = None
    failed_at: float | None = None  # when the culprit ended, by its node's clock
    detected_at: float | None = None
    stopping_at: float | None = None
    ended_at: float | None = None
    decided_at: float | None = None
    watch: Watch | None = None
    fingerprint: dict[str, str] = {}
    """What it ran, by `code`, `git`, `image`, `environment`, `python`: the same text is the same thing."""
    revision: int = 0


class WorkerRecord(Struct, frozen=True, kw_only=True, gc=False):
    """One worker of an attempt. `desired`, `template` and `template_revision` are the loop's; `phase`, `exits`,
    `problem`, `busy_ports` and the times are observed by its node."""

    uid: str
    attempt_uid: str
    job_uid: str
    namespace: str
    role: str
    index: int
    node: str
    host: str
    epoch: int
    devices: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()
    cpu_milli: int = 0
    memory: int = 0
    template: LaunchTemplate
    template_revision: int = 1
    desired: Literal["prepare", "run", "stop"] = "prepare"
    grace: float = 30.0
    stop_reason: str = ""
    fence: float | None = None
    phase: WorkerPhase = WorkerPhase.ASSIGNED
    exits: tuple[RankExit, ...] = ()
    problem: str = ""
    message: str = ""
    busy_ports: tuple[int, ...] = ()
    released: bool = False
    """Its devices, ports, CPU and memory are somebody else's to have. An end alone does not release them: those of a gang
    that failed are kept for its next attempt until the last worker is confirmed dead."""
    ready_at: float | None = None
    running_at: float | None = None
    ended_at: float | None = None
    examine: str = ""
    """A look at its processes that the loop asks for, and `examined` the last one that its agent has told of."""
    examined: str = ""
    revision: int = 0


class Drain(Struct, frozen=True, kw_only=True, gc=False):
    """The wish that a node becomes empty. `policy`: `now` stops what runs there (its grace is kept), `finish` lets it
    end by itself."""

    by: str
    at: float
    policy: Literal["now", "finish"] = "now"
    reason: str = ""


class Taint(Struct, frozen=True, order=True):
    """Keeps jobs that do not tolerate it from starting on a node."""

    key: str
    value: str = ""


class NodeRecord(Struct, frozen=True, kw_only=True, gc=False):
    """A machine. `generation` is the desired state's, `observed` what its agent has acted upon. `conditions` are what
    is wrong with it now, `problems` what its agent could not find out. `cordoned_by` names who cordoned it (a person,
    or `repair/UID`); conditions from before `uncordoned_at`, a person's word, cordon it no more."""

    name: str
    uid: str
    phase: NodePhase = NodePhase.READY
    cordoned: bool = False
    taints: tuple[Taint, ...] = ()
    held: bool = False
    """Attempts run on it that this database does not know. It is told nothing, and gets nothing, until an operator
    has restored or discarded them (`muster admin rebuild-from-agents`)."""
    boot_id: str = ""
    host: str = ""
    address: str = ""
    interface: str = "lo"
    labels: dict[str, str] = {}
    cpu_milli: int = 0
    memory: int = 0
    devices: tuple[Device, ...] = ()
    ephemeral_ports: tuple[int, int] = (32768, 60999)
    agent_version: str = ""
    generation: int = 0
    observed: int = 0
    message: str = ""
    created_at: float = 0.0
    phase_since: float = 0.0
    nics: tuple[Nic, ...] = ()
    conditions: tuple[Condition, ...] = ()
    problems: tuple[str, ...] = ()
    cordoned_by: str = ""
    cordon_reason: str = ""
    uncordoned_at: float | None = None
    drain: Drain | None = None
    revision: int = 0


class RepairStep(Struct, frozen=True, gc=False):
    """One line of a repair's history."""

    at: float
    phase: str
    message: str


class RepairRecord(Struct, frozen=True, kw_only=True, gc=False):
    """One node's way from a condition back to work. `tried` are the remedies that were used up, `task` the one that its
    agent or a hook is at now (its uid is the step's claim), `answer` what came of it. `dry_run`: it is all only said."""

    uid: str
    node: str
    phase: RepairPhase = RepairPhase.WAITING
    conditions: tuple[Condition, ...] = ()
    devices: tuple[int, ...] = ()
    dry_run: bool = False
    tried: tuple[str, ...] = ()
    task: str = ""
    answer: TaskResult | None = None
    boot_id: str = ""
    """The node's when a reboot was asked for: another one is the proof of it."""
    message: str = ""
    steps: tuple[RepairStep, ...] = ()
    created_at: float = 0.0
    phase_since: float = 0.0
    ended_at: float | None = None
    revision: int = 0


class MeasurementRecord(Struct, frozen=True, kw_only=True, gc=False):
    """What an active check measured on a node, or between it and `peer`. `value` in `unit`; `outlier` is a sentence
    when it is far from what peers of the same `device_type` gave. `check` is the run that it belongs to."""

    uid: str
    node: str
    check: str
    name: str
    value: float
    unit: str
    ok: bool = True
    device: int | None = None
    device_type: str = ""
    peer: str = ""
    message: str = ""
    outlier: str = ""
    job_uid: str = ""
    at: float = 0.0
    revision: int = 0


class LeaseRecord(Struct, frozen=True, gc=False):
    """A node's renewals. `renewals` only grows; the leader judges age by when *it* saw the number change."""

    node: str
    renewals: int
    boot_id: str
    renewed_at: float


class QueueRecord(Struct, frozen=True, kw_only=True, gc=False):
    name: str
    uid: str
    spec: dict[str, Any] = {}
    labels: dict[str, str] = {}
    generation: int = 1
    created_at: float = 0.0
    usage: dict[str, float] = {}
    """Device-seconds by kind that its jobs have used, faded until `usage_at`, where its past counts."""
    usage_at: float = 0.0
    revision: int = 0


class ProgramRecord(Struct, frozen=True, kw_only=True):
    """What past runs of one program of a namespace needed: `sizes` are the device-seconds of completed runs, ascending,
    a bounded number of all `runs`."""

    uid: str
    namespace: str
    name: str
    sizes: tuple[float, ...] = ()
    runs: int = 0
    revision: int = 0


class PriorityClassRecord(Struct, frozen=True, kw_only=True):
    """A named priority. Jobs take `value` when they are submitted."""

    name: str
    uid: str
    spec: dict[str, Any] = {}
    labels: dict[str, str] = {}
    generation: int = 1
    created_at: float = 0.0
    revision: int = 0


class ReservationRecord(Struct, frozen=True, kw_only=True):
    """Nodes kept for some from `starts_at` to `ends_at` (UTC seconds). `spec` says which and for whom."""

    name: str
    uid: str
    spec: dict[str, Any] = {}
    labels: dict[str, str] = {}
    starts_at: float = 0.0
    ends_at: float = 0.0
    generation: int = 1
    created_at: float = 0.0
    revision: int = 0


class MaintenanceWindowRecord(Struct, frozen=True, kw_only=True):
    """Nodes that are nobody's from `starts_at` to `ends_at` (UTC seconds). `spec` says which."""

    name: str
    uid: str
    spec: dict[str, Any] = {}
    labels: dict[str, str] = {}
    starts_at: float = 0.0
    ends_at: float = 0.0
    generation: int = 1
    created_at: float = 0.0
    revision: int = 0


PolicyRecord = PriorityClassRecord | ReservationRecord | MaintenanceWindowRecord


class CheckpointRecord(Struct, frozen=True, kw_only=True, gc=False):
    """One checkpoint of a job as last seen by an agent. `epoch` is the attempt that reported it."""

    uid: str
    job_uid: str
    namespace: str
    attempt_uid: str
    epoch: int
    path: str
    step: int
    format: str
    complete: bool
    size: int = 0
    manifest: dict[str, int] = {}
    why: str = ""
    created_at: float = 0.0
    revision: int = 0


class IncidentRecord(Struct, frozen=True, kw_only=True, gc=False):
    """One failure with its verdict, action and cost (seconds: detect, stop, decide, relaunch; steps redone)."""

    uid: str
    job_uid: str
    namespace: str
    job_name: str
    attempt_uid: str
    verdict: Verdict
    opened_at: float
    closed_at: float | None = None
    cost: dict[str, float] = {}
    revision: int = 0


class ReceiptRecord(Struct, frozen=True, kw_only=True, gc=False):
    """What a finished job cost, kept also when the job is gone. The eight sums are device-seconds by the buckets of
    `controller.recovery.goodput`; `body` has the slices, the restarts, the attempts with their nodes and the verdicts."""

    uid: str
    namespace: str
    name: str
    queue: str
    user: str
    accelerator: str
    devices: int
    outcome: str
    created_at: float
    finished_at: float
    queued: float = 0.0
    suspended: float = 0.0
    starting: float = 0.0
    productive: float = 0.0
    lost: float = 0.0
    recovering: float = 0.0
    stalled: float = 0.0
    saving: float = 0.0
    restarts: int = 0
    body: dict[str, Any] = {}


class EventRecord(Struct, frozen=True, kw_only=True, gc=False):
    """Something that happened, told to people. `kind`/`object_uid`/`name` say to what."""

    uid: str
    namespace: str
    kind: str
    object_uid: str
    name: str
    reason: str
    message: str
    at: float
    level: Literal["normal", "warning"] = "normal"
    revision: int = 0


Record = (
    JobRecord
    | AttemptRecord
    | WorkerRecord
    | NodeRecord
    | QueueRecord
    | ProgramRecord
    | PolicyRecord
    | CheckpointRecord
    | IncidentRecord
    | EventRecord
    | RepairRecord
    | MeasurementRecord
)


class Change(Struct, frozen=True, kw_only=True, gc=False):
    """One entry of the change log: something was put or deleted at `revision`. `record` is the state when the
    reader read it (never older than the revision; a later change of the same thing may already be in it)."""

    revision: int
    kind: str  # Job, Attempt, Worker, Node, Queue, PriorityClass, Reservation, MaintenanceWindow, Checkpoint, ...
    uid: str
    namespace: str = ""
    name: str = ""
    op: Literal["put", "delete"] = "put"
    at: float = 0.0
    record: Record | None = None
