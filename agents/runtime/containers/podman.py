"""Podman: no daemon. A container's processes are below the shim and in the worker's groups, rootless too."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from agents.runtime.containers.contract import Box
from agents.runtime.containers.dockerlike import Docker

INITS: Final = ("/usr/libexec/podman/catatonit", "/usr/bin/catatonit")


class Podman(Docker):
    """`daemon`: its monitor leaves the shim's session, so names are removed as well."""

    def __init__(self, program: str, *, rootless: bool | None = None) -> None:
        super().__init__(program)
        self.rootless = os.geteuid() != 0 if rootless is None else rootless
        self.init = any(Path(path).exists() for path in INITS)

    def present(self, image: str) -> tuple[str, ...]:
        return (self.program, "image", "exists", image)

    def identity(self, box: Box) -> tuple[str, ...]:
        own = ("--cgroups", "disabled")  # it stays in the groups that the shim has made
        return (*own, "--userns", "keep-id") if self.rootless else (*own, *super().identity(box))

    def ulimits(self, wanted: Mapping[str, int]) -> tuple[str, ...]:
        """Those that the shim has set already, as far as it may."""
        own = (word for name, value in wanted.items() for word in ("--ulimit", f"{name}={value}:{value}"))
        return ("--ulimit", "host", *own)

    def gpus(self, numbers: Sequence[int]) -> tuple[str, ...]:
        return tuple(word for number in numbers for word in ("--device", f"nvidia.com/gpu={number}"))
