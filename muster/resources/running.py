"""How a worker's processes run on their node: limits, binding, shell, image."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from muster.resources.meta import Model
from muster.resources.quantities import Cpu, Memory

ULIMITS = ("core", "fsize", "memlock", "nofile", "nproc", "stack")


class Limits(Model):
    """What the kernel enforces by control groups; `cpu` and `memory` alone only reserve room."""

    cpu: Cpu | None = None
    """Cores: a worker that wants more is slowed down."""
    memory: Memory | None = None
    """Bytes: a worker that takes more is killed, and told apart from other kills."""


class Mount(Model):
    """A folder of the node inside the worker's container."""

    source: str
    """The folder on the node."""
    target: str | None = None
    """By default the same path."""
    read_only: bool = False
    """Nothing can be written there."""

    @field_validator("source", "target")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and (not value.startswith("/") or re.search(r"[\0:,]|(^|/)\.\.(/|$)", value)):
            raise ValueError("expected an absolute path without '..', ':' and ','")
        return value


def _ulimit(value: object) -> object:
    if value == "unlimited" or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62):
        return value
    raise ValueError("expected a number or unlimited")


Ulimit = Annotated[int | Literal["unlimited"], BeforeValidator(_ulimit)]
Ulimits = Annotated[dict[Literal["core", "fsize", "memlock", "nofile", "nproc", "stack"], Ulimit], Field(default={})]

_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,511}")


def check_image(value: str | None) -> str | None:
    """Names of images, and paths of Apptainer's files. Raises ValueError."""
    if value is not None and not _IMAGE.fullmatch(value.removeprefix("/")):
        raise ValueError("expected the name of an image such as nvcr.io/nvidia/pytorch:26.01-py3")
    return value
