"""Launch templates: what each worker of a gang starts, for its agent to complete."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from controller.launch import command, deepspeed, jax, ray, serving, torchrun, variants
from controller.launch.environment import environment
from controller.launch.program import literal
from controller.launch.roles import roles_of, spec_of
from controller.launch.running import running
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
    "torchrun-elastic": Framework(torchrun.check, torchrun.ranks, variants.elastic),
    "deepspeed": Framework(deepspeed.check, deepspeed.ranks, deepspeed.commands),
    "jax": Framework(jax.check, jax.ranks, jax.commands),
    "megatron": Framework(torchrun.check, torchrun.ranks, variants.megatron),
    "colossalai": Framework(torchrun.check, torchrun.ranks, torchrun.commands),
    "torch-npu": Framework(torchrun.check, torchrun.ranks, variants.ascend),
    "ray": Framework(ray.check, ray.ranks, ray.commands),
    "verl": Framework(ray.check, ray.ranks, ray.commands),
    "openrlhf": Framework(ray.check, ray.ranks, ray.commands),
    "vllm": Framework(serving.check_vllm, serving.ranks, serving.vllm),
    "vllm-ascend": Framework(serving.check_vllm, serving.ranks, serving.vllm_ascend),
    "orca": Framework(serving.check_vllm, serving.ranks, serving.orca),
    "sglang": Framework(serving.check_sglang, serving.ranks, serving.sglang),
}


def unlaunchable(spec: dict[str, Any]) -> FieldError | None:
    """The error to refuse a manifest with whose program does not go with its framework."""
    for place, role in enumerate(roles_of(spec)):
        own = spec_of(spec, role)
        try:
            FRAMEWORKS[spec.get("framework", "command")].check(own)
        except LaunchError as error:
            of_role = own.get("command") != spec.get("command")
            field = f"spec.roles[{place}].command" if of_role else "spec.command"
            return FieldError(field, str(error), found=" ".join(own.get("command") or ()))
    return None


def render(job: JobRecord, attempt: AttemptRecord, workers: Sequence[PlacedWorker]) -> tuple[LaunchTemplate, ...]:
    """One template for each of `workers`, which come in rank order, each with its block of ports. Each role is a world
    of its own: its ranks are numbered from 0, and its first worker is its master. Raises LaunchError when the job's
    command does not go with its framework."""
    made: dict[tuple[str, int], LaunchTemplate] = {}
    names = dict.fromkeys(worker.role for worker in workers)
    for role in names:
        members = tuple(worker for worker in workers if worker.role == role)
        gang = _gang(job, attempt, members, tuple(workers) if len(names) > 1 else ())
        for place, worker in enumerate(members):
            made[role, worker.index] = _template(FRAMEWORKS[gang.job.spec.get("framework", "command")], gang, place)
    return tuple(made[worker.role, worker.index] for worker in workers)


def _gang(
    job: JobRecord, attempt: AttemptRecord, members: tuple[PlacedWorker, ...], peers: tuple[PlacedWorker, ...]
) -> Gang:
    spec = spec_of(job.spec, members[0].role, members[0].device_type)
    framework = FRAMEWORKS[spec.get("framework", "command")]
    ranks = tuple(framework.ranks(spec, worker) for worker in members)
    return Gang(job=replace(job, spec=spec), attempt=attempt, workers=members, ranks=ranks, peers=peers)


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
        files=started.files,
        script=spec.get("script"),
        workdir=spec.get("workdir", "."),
        first_rank=gang.first_rank(worker),
        ranks=gang.ranks[worker],
        ports=placed.ports,
        listens=placed.ports,
        log_pattern=LogPattern(started.log_regex) if started.log_regex else None,
        resume=gang.attempt.resume.path if gang.attempt.resume else "",
        running=running(spec),
        progress_regex=(spec.get("progress") or {}).get("regex"),
    )
