"""The launch room's data: the placed workers of an attempt in, a launch template for each out.

    templates = render(job, attempt, workers)     (controller.launch.render)

Pure: no clock, no randomness, no I/O.
"""

from msgspec import Struct

from controller.records import AttemptRecord, JobRecord


class LaunchError(ValueError):
    """This job cannot be launched as it is written; the sentence says what to change."""


class PlacedWorker(Struct, frozen=True, kw_only=True):
    """One worker where it was placed. `address` is its node's, as the other workers reach it; `host` names the
    network stack that its `ports` (a block of its own) belong to. `device_type` is the catalogue's name."""

    role: str = "worker"
    index: int
    node: str
    host: str = ""
    address: str
    devices: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()
    device_type: str | None = None


class Gang(Struct, frozen=True, kw_only=True):
    """All that a framework needs to write its command lines: the workers in rank order, and where each one's
    ranks begin."""

    job: JobRecord
    attempt: AttemptRecord
    workers: tuple[PlacedWorker, ...]
    ranks: tuple[int, ...]
    peers: tuple[PlacedWorker, ...] = ()
    """All workers of the attempt where they are of several roles; `workers` are those of one."""

    @property
    def world_size(self) -> int:
        return sum(self.ranks)

    @property
    def master(self) -> PlacedWorker:
        return self.workers[0]

    @property
    def master_port(self) -> int:
        return self.master.ports[0]

    def first_rank(self, worker: int) -> int:
        return sum(self.ranks[:worker])


class Commands(Struct, frozen=True, kw_only=True):
    """What one framework starts in one worker: processes, what each has in its own environment, and defaults for
    the environment of all (the user's values win over both)."""

    processes: tuple[tuple[str, ...], ...]
    process_env: tuple[dict[str, str], ...] = ()
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    """Texts by name, below the worker's own folder."""
    log_regex: str | None = None
