"""The seam to whatever runs workers: agents on nodes, or Kubernetes.

The loop commits an intent first, then tells the executor; the executor makes the outside match, as often
as it is told. What it sees comes back as observations, which the loop (or, for agents, the API on their
behalf) writes into the store. Nothing here speaks of agents, pods, sockets or commands.
"""

from collections.abc import Iterable
from typing import Literal, Protocol

from msgspec import Struct

from controller.records import AttemptRecord, JobRecord, WorkerRecord
from muster.evidence import Evidence
from muster.protocol import RankExit
from muster.states import WorkerPhase


class Intent(Struct, frozen=True, kw_only=True):
    """One attempt as the controller wants it. Each worker's own `desired` is prepare, run or stop. An attempt
    whose workers are all terminal is no longer mentioned."""

    job: JobRecord
    attempt: AttemptRecord
    workers: tuple[WorkerRecord, ...]


class Observation(Struct, frozen=True, kw_only=True):
    """One worker as seen outside. `phase` EXITED means: every process confirmed gone."""

    worker_uid: str
    attempt_uid: str
    epoch: int
    phase: WorkerPhase
    at: float
    template_revision: int = 0
    exits: tuple[RankExit, ...] = ()
    problem: str = ""
    message: str = ""
    busy_ports: tuple[int, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    examined: str = ""


class Executor(Protocol):
    name: Literal["agents", "kubernetes"] | str

    def reconcile(self, intents: Iterable[Intent]) -> None:
        """Make the outside match. Idempotent; called after every commit that changed an intent and from time to
        time with all of them. Raises nothing that a later call may mend."""

    def observe(self) -> list[Observation]:
        """What has been seen since the last call, oldest first; repeats are harmless."""
        ...
