"""framework `deepspeed`: its launcher on every worker, without SSH; the hostfile is there for the counts only."""

import re
from typing import Any, Final

from controller.launch.program import program
from controller.launch.torchrun import ranks
from controller.launch.types import Commands, Gang, LaunchError

__all__ = ["check", "commands", "ranks"]

MODULE: Final = "deepspeed.launcher.runner"
_PYTHON: Final = re.compile(r"(.*/)?python(3(\.\d+)?)?")
_LAUNCHER: Final = re.compile(r"(.*/)?deepspeed")


def check(spec: dict[str, Any]) -> None:
    """Raises LaunchError when the command starts a launcher of its own, or is no Python program."""
    _split(program(spec))


def commands(gang: Gang, worker: int) -> Commands:
    """Raises LaunchError as `check` does."""
    python, target = _split(program(gang.job.spec))
    hosts = "".join(f"{one.address} slots={count}\n" for one, count in zip(gang.workers, gang.ranks, strict=True))
    options = (
        "--hostfile=%{hostfile}",
        "--no_ssh",
        f"--node_rank={worker}",
        f"--master_addr={gang.master.address}",
        f"--master_port={gang.master_port}",
    )
    return Commands(
        processes=((python, "-m", MODULE, *options, *target),), env={"OMP_NUM_THREADS": "1"}, files={"hostfile": hosts}
    )


def _split(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    first, rest = words[0], words[1:]
    if _LAUNCHER.fullmatch(first):
        raise LaunchError(
            "framework deepspeed brings its own launcher: name the program alone, e.g. [python, train.py]"
        )
    if not _PYTHON.fullmatch(first):
        return "%{python}", ("--no_python", *words)
    if rest and rest[0] == "-u":
        rest = rest[1:]
    if len(rest) > 1 and rest[0] == "-m":
        return first, ("--module", *rest[1:])
    if not rest or rest[0].startswith("-"):
        return first, ("--no_python", *words)
    return first, rest
