"""Launch templates: what each worker of a gang starts, for its agent to complete."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from controller.launch import command, torchrun
from controller.launch.environment import environment
from controller.launch.program import literal
from controller.launch.types import Commands, Gang, LaunchError, PlacedWorker
from controller.records import AttemptRecord, JobRecord
from muster.launch import LaunchTemplate, LogPattern

__all__ = ["LaunchError", "PlacedWorker", "render"]


class Framework(Struct, frozen=True):
    """How many ranks a worker has, and what starts them."""

    ranks: Callable[[dict[str, Any], PlacedWorker], int]
    commands: Callable[[Gang, int], Commands]


FRAMEWORKS: Final[Mapping[str, Framework]] = {
    "command": Framework(command.ranks, command.commands),
    "torchrun": Framework(torchrun.ranks, torchrun.commands),
}


def render(job: JobRecord, attempt: AttemptRecord, workers: Sequence[PlacedWorker]) -> tuple[LaunchTemplate, ...]:
    """One template for each of `workers`, which come in rank order, each with its block of ports. Raises LaunchError
    when the job's command does not go with its framework."""
    framework = FRAMEWORKS[job.spec.get("framework", "command")]
    ranks = tuple(framework.ranks(job.spec, worker) for worker in workers)
    gang = Gang(job=job, attempt=attempt, workers=tuple(workers), ranks=ranks)
    return tuple(_template(framework, gang, worker) for worker in range(len(workers)))


def _template(framework: Framework, gang: Gang, worker: int) -> LaunchTemplate:
    spec, placed = gang.job.spec, gang.workers[worker]
    started = framework.commands(gang, worker)
    own = {name: literal(value) for name, value in (spec.get("env") or {}).items()}
    return LaunchTemplate(
        framework=spec.get("framework", "command"),
        processes=started.processes,
        process_env=tuple(
            {name: value for name, value in env.items() if name not in own} for env in started.process_env
        ),
        env={**environment(gang, worker), **started.env, **own},
        script=spec.get("script"),
        workdir=spec.get("workdir", "."),
        first_rank=gang.first_rank(worker),
        ranks=gang.ranks[worker],
        ports=placed.ports,
        listens=placed.ports,
        log_pattern=LogPattern(started.log_regex) if started.log_regex else None,
        resume=gang.attempt.resume.path if gang.attempt.resume else "",
        progress_regex=(spec.get("progress") or {}).get("regex"),
    )
