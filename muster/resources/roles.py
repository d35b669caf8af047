"""Roles: the shapes of a gang that has several, e.g. a leader and its workers, prefill and decode, learner and actors."""

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from muster.resources.meta import Model, Name
from muster.resources.placing import MAX_WORKERS, Accelerators
from muster.resources.program import Command, Environment
from muster.resources.quantities import Cpu, Memory
from muster.resources.running import check_image


class RoleTopology(Model):
    """Where the workers of one role lie."""

    required: str | None = None
    """They share one domain of this level, or the job waits."""


class Role(Model):
    """One shape. What it does not say it has from the job. Its ranks are numbered by themselves, from 0."""

    name: Name
    """What its workers are called, e.g. actor: MUSTER_ROLE, and the folder of their logs."""
    workers: int = Field(default=1, ge=1, le=MAX_WORKERS)
    """All of them run, or none of the gang."""
    accelerators: list[Accelerators] | None = Field(default=None, max_length=1)
    """The kind of device; an empty list: none, although the job has some."""
    cpu: Cpu | None = None
    """Cores of each worker."""
    memory: Memory | None = None
    """Bytes of each worker."""
    ranks_per_worker: int | None = Field(default=None, ge=1, le=1024)
    """Framework processes inside each worker."""
    command: Command | None = None
    """What its workers run, as a list of words."""
    script: str | None = None
    """What its workers run, as a text for a shell."""
    image: str | None = None
    """The container image that its workers run in."""
    env: Environment | None = None
    """Added to the job's."""
    restart: Literal["job"] = "job"
    """What restarts when one of its workers fails: job, all roles together."""
    head: bool = False
    """The gang has succeeded as soon as the workers of this role have; the others are stopped then."""
    topology: RoleTopology | None = None
    """Where its workers lie."""

    _image = field_validator("image")(check_image)

    @field_validator("restart", mode="before")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        if value == "role":
            raise ValueError("role is not supported yet: when a worker fails, all roles restart together")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.command is not None and self.script is not None:
            raise ValueError("expected at most one of command and script")
        if self.accelerators and self.accelerators[0].workers is not None:
            raise ValueError("accelerators: the workers of a role are said once, in the role")
        return self
