"""The shapes that the API answers with, as the OpenAPI document shows them. Times are RFC 3339 in UTC."""

from typing import Any, Generic, Literal, NotRequired, TypeVar

from typing_extensions import TypedDict

from api.node_views import ConditionView, DrainView, NicView

Item = TypeVar("Item")


ListMetadata = TypedDict("ListMetadata", {"resourceVersion": str, "continue": NotRequired[str]})
"""`continue` is where the next page begins; absent on the last."""


class ListView(TypedDict, Generic[Item]):
    apiVersion: str
    kind: str
    metadata: ListMetadata
    items: list[Item]


class MetadataView(TypedDict):
    name: str
    namespace: NotRequired[str]
    labels: NotRequired[dict[str, str]]
    annotations: NotRequired[dict[str, str]]
    uid: str
    resourceVersion: str
    generation: NotRequired[int]
    number: NotRequired[int]
    createdAt: str | None


class AttemptRef(TypedDict):
    uid: str
    number: int
    phase: str


class ProgressView(TypedDict):
    step: int
    loss: float | None
    at: str | None


class PlacedView(TypedDict):
    role: str
    index: int
    node: str
    devices: list[int]
    phase: str


class EtaView(TypedDict):
    """When a waiting job is expected to start; `at` null when nobody can say (`note` tells why). `bound`: not before
    that time. `position` among the `waiting` in the order of service. `revision`, `madeAt`, `ageSeconds`: of the
    forecast."""

    at: str | None
    bound: bool
    basis: str
    note: str
    position: int
    waiting: int
    revision: str
    madeAt: str | None
    ageSeconds: float


class AccuracyView(TypedDict):
    """How far off the first prediction of each of the last 1,000 starts was; null without any."""

    starts: int
    p50ErrorSeconds: float | None
    p90ErrorSeconds: float | None


class OtherReasonView(TypedDict):
    code: str
    means: str


class WhyStatus(TypedDict):
    """`code` binds, `message` has its numbers; null and a sentence for a job that does not wait."""

    phase: str
    code: str | None
    means: str
    message: str
    others: list[OtherReasonView]
    helps: list[str]
    numbers: dict[str, int]
    since: str | None
    queuedAt: str | None
    eta: EtaView | None


class WhyView(TypedDict):
    """Why a job is not running yet."""

    apiVersion: str
    kind: Literal["Why"]
    metadata: "MetadataView"
    status: WhyStatus


class EtaTimeView(TypedDict):
    """When a job starts; `at` null when nobody can say (`note` tells why). `bound`: not before that time."""

    at: str | None
    bound: bool
    basis: str
    note: str


class JobName(TypedDict):
    namespace: str
    name: str


class PlacedStartView(JobName):
    nodes: list[str]
    domain: str


class EvictionView(JobName):
    """The job that gets room, and those that would be told to go for it."""

    victims: list[JobName]


class ToldView(JobName):
    """`today` and `then` are null where the job does not wait."""

    today: EtaTimeView | None
    then: EtaTimeView | None


class WaitView(TypedDict):
    code: str
    message: str
    others: list[str]
    helps: str
    numbers: dict[str, int]


class RevisionView(TypedDict):
    resourceVersion: str


class WhatIfView(TypedDict):
    """What the next plan would do with the change, and when jobs would start, in the order of service. `why`: of the job
    that was asked about, where it would wait."""

    apiVersion: str
    kind: Literal["WhatIf"]
    metadata: RevisionView
    at: str | None
    starts: list[PlacedStartView]
    evictions: list[EvictionView]
    waiting: int
    jobs: list[ToldView]
    why: WaitView | None


class GangRoomView(TypedDict):
    """At most so many workers with so many devices each, all in this domain."""

    devices: int
    workers: int
    domain: str


class LevelRoomView(TypedDict):
    accelerator: str
    level: str
    domains: int
    free: int
    total: int
    gangs: list[GangRoomView]


class CapacityView(TypedDict):
    apiVersion: str
    kind: Literal["Capacity"]
    metadata: RevisionView
    at: str | None
    items: list[LevelRoomView]


class LeavingView(TypedDict):
    """A worker that was told to go and has not gone yet."""

    job: str
    worker: str
    node: str


class ClaimStatus(TypedDict):
    """`nodes` in the rank order of the owner's workers; `vacated`: those of them that nobody is left on of whom it
    waits. Who was told is expected to be gone at `deadline`."""

    owner: str
    queue: str
    priority: int
    nodes: list[str]
    vacated: list[str]
    leaving: list[LeavingView]
    madeAt: str | None
    deadline: str | None


class ClaimView(TypedDict):
    apiVersion: str
    kind: Literal["Claim"]
    metadata: MetadataView
    status: ClaimStatus


class DependencyView(TypedDict):
    """`phase`: of that job while the condition is not met; empty where there is none of its name."""

    job: str
    condition: str
    met: bool
    phase: str


class ElementsView(TypedDict):
    """Elements of an array: of all, so many were made; those by phase."""

    total: int
    made: int
    phases: dict[str, int]


class JobOrder(TypedDict, total=False):
    """Only of jobs that come after others, and of arrays."""

    dependencies: list[DependencyView]
    elements: ElementsView


class JobStatus(JobOrder):
    phase: str
    reason: str
    message: str
    eta: EtaView | None
    restarts: int
    epoch: int
    attempt: AttemptRef | None
    progress: ProgressView | None
    workers: list[PlacedView]
    queuedAt: str | None
    startedAt: str | None
    finishedAt: str | None
    warnings: list[str]


class JobView(TypedDict):
    apiVersion: str
    kind: Literal["Job"]
    metadata: MetadataView
    spec: dict[str, Any]
    status: JobStatus


class ResultView(TypedDict):
    """What became of one item of a list: `object` when it was created, else `problem`."""

    name: str
    namespace: str
    status: int
    object: JobView | None
    problem: "ProblemView | None"


class ResultsView(TypedDict):
    """One result for each item, in their order."""

    apiVersion: str
    kind: Literal["JobResultList"]
    metadata: ListMetadata
    items: list[ResultView]


class ResumeView(TypedDict):
    path: str
    step: int


class VerdictView(TypedDict):
    category: str
    action: str
    why: str
    culpritNodes: list[str]
    culpritRank: int | None
    nodeAtFault: bool | None
    certainty: str
    decidedBy: list[str]
    fingerprint: str


class TimelineView(TypedDict):
    placedAt: str | None
    launchingAt: str | None
    runningAt: str | None
    failedAt: str | None
    detectedAt: str | None
    stoppingAt: str | None
    endedAt: str | None
    decidedAt: str | None


class ExitView(TypedDict):
    process: int
    rank: int | None
    code: int | None
    signal: int | None
    oom: bool
    at: str | None


class WorkerView(TypedDict):
    uid: str
    role: str
    index: int
    node: str
    phase: str
    desired: str
    devices: list[int]
    ports: list[int]
    firstRank: int
    ranks: int
    exits: list[ExitView]
    problem: str
    message: str
    readyAt: str | None
    runningAt: str | None
    endedAt: str | None


class AttemptView(TypedDict):
    uid: str
    number: int
    epoch: int
    scope: str
    phase: str
    reason: str | None
    message: str
    rendezvous: str
    resume: ResumeView | None
    verdict: VerdictView | None
    firstStep: int | None
    lastStep: int | None
    loss: float | None
    redoneSteps: int
    fingerprint: dict[str, str]
    timeline: TimelineView
    workers: list[WorkerView]


class CheckpointView(TypedDict):
    uid: str
    path: str
    step: int
    format: str
    complete: bool
    why: str
    size: int
    files: int
    epoch: int
    attempt: str
    createdAt: str | None


class ProgramView(TypedDict):
    """A program whose runs time-sharing has learned from."""

    uid: str
    namespace: str
    name: str
    runs: int


class IncidentView(TypedDict):
    uid: str
    namespace: str
    job: str
    attempt: str
    verdict: VerdictView
    openedAt: str | None
    closedAt: str | None
    cost: dict[str, float]


class ObjectRef(TypedDict):
    kind: str
    uid: str
    name: str


class EventView(TypedDict):
    uid: str
    namespace: str
    revision: int
    object: ObjectRef
    level: str
    reason: str
    message: str
    at: str | None


class DeviceView(TypedDict):
    index: int
    type: str
    vendor: str
    model: str
    memoryMib: int | None
    numa: int | None
    group: int | None
    healthy: bool
    virtual: bool
    problems: list[str]
    bus: str | None
    uuid: str | None
    nics: list[str]
    parts: list[str]


class AllocationView(TypedDict):
    device: int
    namespace: str
    job: str
    worker: str


class NodeSpec(TypedDict):
    """`cordonedBy` names a person, or the repair that did it."""

    cordoned: bool
    cordonedBy: str
    cordonReason: str
    taints: list[dict[str, str]]
    drain: DrainView | None


class NodeStatus(TypedDict):
    """`held`: it runs attempts that the database does not know, and gets nothing until an operator has decided."""

    phase: str
    held: bool
    phaseSince: str | None
    message: str
    address: str
    host: str
    bootId: str
    agentVersion: str
    cpu: str
    memory: str
    devices: list[DeviceView]
    allocated: list[AllocationView]
    nics: list[NicView]
    conditions: list[ConditionView]
    problems: list[str]
    lastRenewal: str | None


class NodeView(TypedDict):
    apiVersion: str
    kind: Literal["Node"]
    metadata: MetadataView
    spec: NodeSpec
    status: NodeStatus


class QueueStatus(TypedDict):
    """Live jobs of this queue by phase, and how good the predictions of its starts were."""

    jobs: dict[str, int]
    etaAccuracy: AccuracyView
    warnings: NotRequired[list[str]]


class QueueView(TypedDict):
    apiVersion: str
    kind: Literal["Queue"]
    metadata: MetadataView
    spec: dict[str, Any]
    status: QueueStatus


class PolicyStatus(TypedDict, total=False):
    """Of a span of time: when it is, in UTC, and whether it has begun or is over."""

    startsAt: str | None
    endsAt: str | None
    warnings: list[str]


class PolicyView(TypedDict):
    """A priority class, reservation or maintenance window."""

    apiVersion: str
    kind: str
    metadata: MetadataView
    spec: dict[str, Any]
    status: PolicyStatus


class SelfView(TypedDict):
    """What an attempt may know about itself."""

    namespace: str
    job: str
    jobUid: str
    attempt: AttemptRef
    epoch: int
    resume: ResumeView | None


class VersionView(TypedDict):
    version: str
    apiVersion: str
    protocol: int
    protocolOldest: int


class InvariantView(TypedDict):
    """`broken` are sentences, one for each thing that breaks it."""

    name: str
    broken: list[str]


class CheckView(TypedDict):
    """All invariants of the cluster at one revision."""

    ok: bool
    revision: str
    invariants: list[InvariantView]


class StrayWorkerView(TypedDict):
    """One worker of an attempt that the database does not know."""

    uid: str
    role: str
    index: int
    node: str
    phase: str
    devices: list[int]
    ports: list[int]
    command: list[str]


class StrayView(TypedDict):
    """An attempt that agents run and that the database does not know. `missing` workers of its gang have not been told
    of; `problem` says why it was not, or cannot be, restored; `restored` whether it was just now."""

    attempt: str
    namespace: str
    job: str
    jobUid: str
    number: int
    epoch: int
    workers: list[StrayWorkerView]
    missing: int
    problem: str
    restored: bool


class RebuildView(TypedDict):
    """What waits for an operator. `hold` is why, empty when nothing does; `silent` are nodes of the database that have
    not renewed their lease since everything was put on hold."""

    hold: str
    cluster: str
    nodes: list[str]
    silent: list[str]
    attempts: list[StrayView]


class OutboxView(TypedDict):
    """A promised side effect, without its payload, which may hold secrets."""

    id: str
    kind: str
    key: str
    state: Literal["due", "done", "dead"]
    tries: int
    error: str
    createdAt: str | None
    nextAt: str | None
    doneAt: str | None


class AuditView(TypedDict):
    """One line of the audit trail. `verb` is create, update or delete, or the method of a request that was refused;
    `outcome` is done, or the status of the refusal; `change` the fields that were written."""

    at: str | None
    actor: str
    role: str
    requestId: str
    verb: str
    namespace: str
    kind: str
    name: str
    outcome: str
    change: dict[str, Any]


class ErrorView(TypedDict):
    field: str
    code: str
    message: str
    found: NotRequired[Any]
    allowed: NotRequired[list[str]]
    suggestion: NotRequired[str]


class ProblemView(TypedDict):
    """RFC 9457."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: list[ErrorView]
    requestId: str
