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
from muster.problems import FieldError

__all__ = ["LaunchError", "PlacedWorker", "render", "unlaunchable"]


class Framework(Struct, frozen=True):
    """Whether a spec goes with it (else LaunchError), how many ranks a worker has, and what starts them."""

    check: Callable[[dict[str, Any]], None]
    ranks: Callable[[dict[str, Any], PlacedWorker], int]
    commands: Callable[[Gang, int], Commands]


FRAMEWORKS: Final[Mapping[str, Framework]] = {
    "command": Framework(command.check, command.ranks, command.commands),
    "torchrun": Framework(torchrun.check, torchrun.ranks, torchrun.commands),
}


def unlaunchable(spec: dict[str, Any]) -> FieldError | None:
    """The error to refuse a manifest with whose program does not go with its framework."""
    try:
        FRAMEWORKS[spec.get("framework", "command")].check(spec)
    except LaunchError as error:
        return FieldError("spec.command", str(error), found=" ".join(spec["command"]))
    return None


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
