"""The Job: a gang that runs to its end, a service, or several roles.

What only later releases act upon (services, containers, volumes) is not accepted yet: an accepted field is a promise.
"""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from muster.resources.meta import API_VERSION, Labels, Metadata, Model, Name
from muster.resources.order import After, Array
from muster.resources.placing import MAX_WORKERS, Accelerators, Nodes, Preemption, Toleration, Topology
from muster.resources.program import Command, Environment
from muster.resources.quantities import Cpu, Duration, DurationOrAuto, DurationOrNever, HangAfter, Memory
from muster.resources.roles import Role
from muster.resources.running import Limits, Mount, Ulimits, check_image

Framework = Literal[
    "command",
    "torchrun",
    "torchrun-elastic",
    "deepspeed",
    "jax",
    "megatron",
    "colossalai",
    "torch-npu",
    "ray",
    "verl",
    "openrlhf",
    "vllm",
    "vllm-ascend",
    "orca",
    "sglang",
]


NotifyEvent = Literal["succeeded", "failed", "cancelled", "held", "restarted"]


class Checkpoint(Model):
    """Where checkpoints lie and what they look like. A folder belongs to one live job."""

    directory: str
    """The folder, the same on all nodes; relative: to the manifest's folder."""
    format: Literal["auto", "dcp", "marker"] = "auto"
    """How a complete one is told from a half-written one; auto looks for itself."""
    every: DurationOrAuto = "auto"
    """How often the program saves, for advice and for what a stop would cost."""
    grace: Duration = "30s"
    """Time between the signal and the kill when the job is stopped on purpose."""

    @field_validator("directory")
    @classmethod
    def _absolute_or_relative(cls, value: str) -> str:
        if not value or "\0" in value:
            raise ValueError("expected a folder")
        return value


class Progress(Model):
    """Progress read from the log, for programs that do not use the reporter."""

    regex: str
    """With a group named step, and perhaps one named loss."""

    @field_validator("regex")
    @classmethod
    def _has_step(cls, value: str) -> str:
        try:
            groups = re.compile(value).groupindex
        except re.error as error:
            raise ValueError(f"expected a regular expression: {error}") from error
        if "step" not in groups:
            raise ValueError("expected a group named step, e.g. 'step (?P<step>\\d+) loss (?P<loss>\\S+)'")
        return value


class Recovery(Model):
    """When to restart and when to stop trying."""

    max_restarts: int = Field(default=20, ge=0)
    """After so many failures of nodes or ranks the job fails; stops on purpose do not count."""
    no_progress_limit: int = Field(default=2, ge=1)
    """Attempts with the same end and no new step after which the job fails."""
    fence_after: DurationOrNever | None = None
    """Shims stop their ranks this long after the last renewal; the cluster's default when unset."""
    recovery_timeout: Duration = "10m"
    """How long what is left of a gang is kept for it while a replacement is looked for."""
    launch_timeout: Duration = "10m"
    """From the commit of a placement to running ranks, or the attempt is given up."""
    kill_grace: Duration = "5s"
    """Time between signal and kill for the rest of a gang of which a part has failed."""
    hang_after: HangAfter = "auto"
    """Silence after which a job that has shown progress is taken to hang: auto learns it from the job's own times, phase
    by phase; a duration, never, or one for each phase (start, train, save, ...) by its name."""


class Notify(Model):
    """Who is told of the job's fate, at least once, from the outbox; by one way or several."""

    webhook: str | None = None
    """Where a JSON document is posted to."""
    slack: str | None = None
    """An incoming web hook of Slack, or of what understands the same (Mattermost, Discord's /slack, Rocket.Chat)."""
    mail: list[str] | None = Field(default=None, max_length=20)
    """Addresses; operators set the mail server with MUSTER_SMTP_URL."""
    events: list[NotifyEvent] = Field(default=["succeeded", "failed", "cancelled"], min_length=1)
    """Of what is told."""

    @field_validator("webhook", "slack")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"https?://[^\s/]+", value):
            raise ValueError("expected an http:// or https:// address")
        return value

    @field_validator("mail")
    @classmethod
    def _addresses(cls, value: list[str] | None) -> list[str] | None:
        for one in value or ():
            if not re.fullmatch(r"[^@\s,;<>\"]{1,64}@[A-Za-z0-9.-]{1,255}", one):
                raise ValueError(f"expected an address such as anna@example.org, found {one!r}")
        return value

    @model_validator(mode="after")
    def _some_way(self) -> Self:
        if self.webhook is None and self.slack is None and not self.mail:
            raise ValueError("expected at least one of webhook, slack and mail")
        return self


class JobSpec(Model):
    """What the user wants."""

    queue: Name = "default"
    """Where it waits."""
    priority_class: Name = "normal"
    """Who is served first in the queue: low, normal, high, or a class that operators declared."""
    framework: Framework = "command"
    """command: Muster starts every rank; torchrun: one launcher a worker starts its ranks; frameworks.md tells of the others."""
    workers: int = Field(default=1, ge=1, le=MAX_WORKERS)
    """A gang: all of them or none. One worker is one launched unit on one node."""
    min_workers: int | None = Field(default=None, ge=1, le=MAX_WORKERS)
    """Elastic: with fewer workers than `workers`, but not fewer than this, it runs, too."""
    max_workers: int | None = Field(default=None, ge=1, le=MAX_WORKERS)
    """Elastic: it makes use of more workers than `workers` where nobody else needs them, up to this."""
    throughput: dict[Annotated[int, Field(ge=1, le=MAX_WORKERS)], Annotated[float, Field(ge=0)]] | None = None
    """Its speed by the number of workers, in any unit, at the same global batch: for queues that share their devices in time."""
    max_per_node: int = Field(default=1, ge=1, le=1024)
    """Workers of the gang (of each role, where there are roles) that may share a node."""
    ranks_per_worker: int | None = Field(default=None, ge=1, le=1024)
    """Framework processes inside a worker; by default one for each accelerator (at least one)."""
    accelerators: list[Accelerators] = Field(default_factory=list)
    """Acceptable kinds of devices, the best first; none: it needs none."""
    cpu: Cpu = "1"
    """Cores reserved for each worker."""
    memory: Memory = "256Mi"
    """Bytes reserved for each worker."""
    workdir: str = "."
    """Where the program starts; relative: to the manifest's folder."""
    command: Command | None = None
    """The program as a list of words; exactly one of command and script."""
    script: str | None = None
    """The program as a text for a shell."""
    env: Environment = Field(default_factory=dict)
    """Added to the environment; wins over Muster's own values."""
    limits: Limits | None = None
    """What the kernel enforces."""
    ulimits: Ulimits
    """Per process, as `ulimit` and limits.conf name them; memlock is unlimited and nofile as high as it goes anyway."""
    binding: Literal["auto", "none"] = "auto"
    """`auto` keeps ranks on the cores and the memory next to their devices."""
    login_shell: bool = False
    """Run the program by `bash -l`, so that `module load` works."""
    image: str | None = None
    """The container image that the program runs in; the node's own files when unset."""
    image_pull: Literal["missing", "always", "never"] = "missing"
    """When the image is fetched."""
    mounts: list[Mount] = Field(default_factory=list, max_length=64)
    """Folders of the node in the container."""
    shm_size: Memory | None = None
    """Shared memory of the container; the node's whole when unset."""
    time_limit: Duration | None = None
    """Of one attempt's running time; the queue's default, else none."""
    topology: Topology = Field(default_factory=Topology)
    """Where the gang may and should lie on the fabric."""
    node_selector: Labels | None = None
    """Labels that every node of the gang must have."""
    nodes: Nodes | None = None
    """Nodes by name."""
    tolerations: list[Toleration] | None = Field(default=None, max_length=100)
    """Taints of nodes (`muster taint`) that do not keep it away."""
    preemption: Preemption | None = None
    """Whether others may take its place."""
    after: list[After] | None = Field(default=None, max_length=100)
    """Jobs of this namespace that come first."""
    array: Array | None = None
    """Many jobs of this manifest, each with an index and values of its own."""
    roles: list[Role] | None = Field(default=None, min_length=1, max_length=16)
    """A gang of several shapes, instead of `workers` alike."""
    checkpoint: Checkpoint | None = None
    """Where it saves, and goes on from."""
    progress: Progress | None = None
    """How its progress is read from its log."""
    recovery: Recovery = Field(default_factory=Recovery)
    """When to restart and when to stop trying."""
    notify: Notify | None = None
    """Who is told of its end."""
    suspend: bool = False
    """Accepted, but not started; true of a running job: it is stopped and keeps its checkpoints."""

    @model_validator(mode="before")
    @classmethod
    def _sum_of_roles(cls, data: Any) -> Any:
        """`workers` of a gang with roles is their sum, and need not be said."""
        if not isinstance(data, dict) or "workers" in data or not isinstance(data.get("roles"), list):
            return data
        sizes = [role.get("workers", 1) if isinstance(role, dict) else 1 for role in data["roles"]]
        whole = sum(size for size in sizes if isinstance(size, int))
        return data if not 1 <= whole <= MAX_WORKERS else {**data, "workers": whole}

    _image = field_validator("image")(check_image)

    @model_validator(mode="after")
    def _needs_an_image(self) -> Self:
        for word, given in (("mounts", bool(self.mounts)), ("shmSize", self.shm_size is not None)):
            if given and self.image is None:
                raise ValueError(f"{word} needs an image")
        return self

    @model_validator(mode="after")
    def _one_program(self) -> Self:
        if self.command is not None and self.script is not None:
            raise ValueError("expected exactly one of command and script")
        mute = [role.name for role in self.roles or () if role.command is None and role.script is None]
        if self.command is None and self.script is None and (mute or not self.roles):
            of = f" (roles {', '.join(mute)} have none of their own)" if mute else ""
            raise ValueError(f"expected exactly one of command and script{of}")
        return self

    @model_validator(mode="after")
    def _elastic_has_sense(self) -> Self:
        if self.max_workers is not None and self.max_workers < self.workers:
            raise ValueError(f"maxWorkers: {self.max_workers} is fewer than its {self.workers} workers")
        if self.throughput is not None and not self.throughput.get(self.workers):
            raise ValueError(f"throughput: expected a speed above 0 for its {self.workers} workers")
        if self.roles and (self.max_workers is not None or self.throughput is not None):
            raise ValueError("maxWorkers and throughput: not together with roles")
        if self.min_workers is not None:
            if self.roles:
                raise ValueError("minWorkers: not together with roles")
            most = min((kind.workers or self.workers for kind in self.accelerators), default=self.workers)
            if self.min_workers > most:
                raise ValueError(f"minWorkers: {self.min_workers} is more than its {most} workers")
        return self

    @model_validator(mode="after")
    def _after_each_once(self) -> Self:
        names = [one.job for one in self.after or ()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"after: the job {twice[0]} stands twice")
        return self

    @model_validator(mode="after")
    def _roles_have_sense(self) -> Self:
        if not self.roles:
            return self
        names = [role.name for role in self.roles]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"roles: the name {twice[0]} stands twice")
        if sum(role.head for role in self.roles) > 1:
            raise ValueError("roles: at most one of them is the head")
        whole = sum(role.workers for role in self.roles)
        if self.workers != whole:
            raise ValueError(f"workers: leave it out, or say the sum of the roles, {whole}")
        if len(self.accelerators) > 1 or any(kind.workers for kind in self.accelerators):
            raise ValueError("accelerators: with roles one kind, without workers of its own")
        topology = self.topology
        for word, usual in (("segment", None), ("split", "tight"), ("devices", "any"), ("rails", "any")):
            if getattr(topology, word) not in (None, usual):
                raise ValueError(f"topology.{word}: not together with roles yet")
        return self

    @model_validator(mode="after")
    def _topology_has_sense(self) -> Self:
        topology, segment = self.topology, self.topology.segment
        for word in ("rails", "devices"):
            if getattr(topology, word) not in (None, "any") and not self.accelerators:
                raise ValueError(f"topology.{word}: {getattr(topology, word)} needs accelerators")
        for workers in {self.workers, *(kind.workers or self.workers for kind in self.accelerators)}:
            if segment is not None and workers % segment.size and not segment.allow_remainder:
                raise ValueError(f"topology.segment: {workers} workers are no multiple of segments of {segment.size}")
        return self


class Job(Model):
    """`apiVersion: muster.dev/v1`, `kind: Job`."""

    api_version: Literal["muster.dev/v1"] = API_VERSION
    kind: Literal["Job"] = "Job"
    metadata: Metadata
    spec: JobSpec
