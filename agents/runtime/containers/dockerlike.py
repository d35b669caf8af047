"""Docker's command line, which Podman and nerdctl share for the most part."""

from collections.abc import Mapping, Sequence
from typing import Final

from agents.runtime.containers.contract import Box
from muster.launch import Mount

GONE: Final = (
    'found=$("$1" ps -a -q -f "name=^$2$") || exit 1; [ -z "$found" ] && exit 0; "$1" rm -f "$2" >/dev/null; exit 1'
)
"""A daemon that does not answer has removed nothing: only an empty list is proof."""


class Docker:
    """`init` lets the engine put a first process before the program, so that signals reach it and orphans are reaped."""

    daemon = True
    init = True

    def __init__(self, program: str) -> None:
        self.program = program

    def present(self, image: str) -> tuple[str, ...]:
        return (self.program, "image", "inspect", image)

    def pull(self, image: str) -> tuple[str, ...]:
        return (self.program, "pull", image)

    def run(self, box: Box) -> tuple[str, ...]:
        shm = ("--shm-size", str(box.container.shm)) if box.container.shm else ("--ipc", "host")
        return (
            *(self.program, "run", "--rm", "--name", box.name, "--network", "host", *shm),
            *(("--init",) if self.init else ()),
            *("--pull", "never", "--workdir", box.cwd, "--label", "dev.muster=1"),
            *self.identity(box),
            *self.ulimits(box.ulimits),
            *(word for mount in box.mounts for word in ("--volume", volume(mount))),
            *(word for device in box.devices for word in ("--device", device)),
            *(("--cap-add", "IPC_LOCK") if any("/infiniband" in device for device in box.devices) else ()),
            *self.gpus(box.gpus),
            *(word for name in box.variables for word in ("--env", name)),
            *("--entrypoint", box.argv[0], box.container.image, *box.argv[1:]),
        )

    def enter(self, name: str, argv: Sequence[str], variables: Sequence[str], *, tty: bool) -> tuple[str, ...]:
        words = [word for variable in variables for word in ("--env", variable)]
        return (self.program, "exec", "--interactive", *(("--tty",) if tty else ()), *words, name, *argv)

    def remove(self, name: str) -> tuple[str, ...]:
        return ("/bin/sh", "-c", GONE, "muster", self.program, name)

    def identity(self, box: Box) -> tuple[str, ...]:
        if box.user is None:
            return ()
        groups = tuple(word for group in box.user.groups for word in ("--group-add", str(group)))
        return ("--user", f"{box.user.uid}:{box.user.gid}", *groups)

    def ulimits(self, wanted: Mapping[str, int]) -> tuple[str, ...]:
        """The daemon may lift the limit on locked memory, which RDMA needs."""
        return tuple(
            word
            for name, value in {"memlock": -1, **wanted}.items()
            for word in ("--ulimit", f"{name}={value}:{value}")
        )

    def gpus(self, numbers: Sequence[int]) -> tuple[str, ...]:
        return ("--gpus", '"device=' + ",".join(map(str, numbers)) + '"') if numbers else ()


def volume(mount: Mount) -> str:
    return f"{mount.source}:{mount.target}" + (":ro" if mount.read_only else "")
