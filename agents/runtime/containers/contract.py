"""What a container engine has to be able to do for a worker, by its command line. Pure: commands out, nothing run.

No value of the environment is ever an argument, since everybody on the machine can read arguments: engines are told
names alone, and take the values from their own environment.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

from agents.runtime.users import User
from muster.launch import Container, Mount

HOSTS: Final = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV"}
)
"""What is true of the node and not of an image; passed on only when the manifest says it."""


class Box(Struct, frozen=True, kw_only=True):
    """One process of a worker in a container of its own. `devices` are files of the node, `gpus` the numbers of NVIDIA
    devices; `variables` are names. `user` None: who runs the engine."""

    name: str
    container: Container
    argv: tuple[str, ...]
    cwd: str
    variables: tuple[str, ...]
    mounts: tuple[Mount, ...]
    devices: tuple[str, ...] = ()
    gpus: tuple[int, ...] = ()
    vendor: str = ""
    ulimits: dict[str, int] = {}
    user: User | None = None


class Engine(Protocol):
    """`program` is the absolute path of its command. `daemon`: containers are a daemon's children and outlive the command
    that began them, so they must be removed by name."""

    program: str
    daemon: bool

    def present(self, image: str) -> tuple[str, ...]:
        """Ends with 0 when the image is on this node."""
        ...

    def pull(self, image: str) -> tuple[str, ...]: ...

    def run(self, box: Box) -> tuple[str, ...]:
        """Ends as the program in it does."""
        ...

    def enter(self, name: str, argv: Sequence[str], variables: Sequence[str], *, tty: bool) -> tuple[str, ...]:
        """A further program in a container that runs."""
        ...

    def remove(self, name: str) -> tuple[str, ...]:
        """Ends with 0 only when there is surely no container of this name."""
        ...
