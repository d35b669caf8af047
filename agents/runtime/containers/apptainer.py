"""Apptainer (and Singularity): an image is a file, a container is a process like any other, as the user himself."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agents.runtime.containers.contract import Box
from agents.runtime.containers.dockerlike import volume

SUPPORT: Final = {"nvidia": "--nv", "amd": "--rocm"}


class Apptainer:
    """`images` is where images that came from a registry lie."""

    daemon = False

    def __init__(self, program: str, images: Path) -> None:
        self.program, self._images = program, images

    def file(self, image: str) -> str:
        """A path is a file already."""
        if image.startswith("/"):
            return image
        return str(self._images / (re.sub(r"[^A-Za-z0-9.-]+", "_", image) + ".sif"))

    def present(self, image: str) -> tuple[str, ...]:
        return ("/usr/bin/test", "-r", self.file(image))

    def pull(self, image: str) -> tuple[str, ...]:
        source = image if "://" in image else f"docker://{image}"
        return (self.program, "pull", "--force", self.file(image), source)

    def run(self, box: Box) -> tuple[str, ...]:
        """Files of devices and the environment are the node's own anyway."""
        return (
            *(self.program, "exec", "--no-home", "--writable-tmpfs", "--pwd", box.cwd),
            *((SUPPORT[box.vendor],) if box.vendor in SUPPORT else ()),
            *(word for mount in box.mounts for word in ("--bind", volume(mount))),
            *(self.file(box.container.image), *box.argv),
        )

    def enter(self, name: str, argv: Sequence[str], variables: Sequence[str], *, tty: bool) -> tuple[str, ...]:
        """There is nothing by that name to enter; the command runs on the node, beside the ranks."""
        return tuple(argv)

    def remove(self, name: str) -> tuple[str, ...]:
        return ("/bin/true",)
