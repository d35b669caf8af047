"""The engine of this node: MUSTER_CONTAINER_ENGINE, or the first that is installed."""

import shutil
from pathlib import Path
from typing import Final

from agents.runtime.containers.apptainer import Apptainer
from agents.runtime.containers.contract import Engine
from agents.runtime.containers.dockerlike import Docker
from agents.runtime.containers.nerdctl import Nerdctl
from agents.runtime.containers.podman import Podman

NAMES: Final = ("podman", "docker", "nerdctl", "apptainer", "singularity")


def choose(wanted: str, path: str, images: Path) -> Engine | None:
    """`wanted` is a name, the absolute path of a program with such a name, or `auto`. None when it is not installed."""
    for name in NAMES if wanted == "auto" else (wanted,):
        program = shutil.which(name, path=path)
        if program is not None:
            return _engine(Path(name).name, program, images)
    return None


def _engine(name: str, program: str, images: Path) -> Engine:
    match name:
        case "podman":
            return Podman(program)
        case "nerdctl":
            return Nerdctl(program)
        case "apptainer" | "singularity":
            return Apptainer(program, images)
    return Docker(program)
