"""framework `torchrun`: one launcher a worker, which starts that worker's ranks; static rendezvous.

The first worker's launcher holds the store at the master port. The rendezvous id prefixes the launchers' keys in
it, so launchers of two attempts never complete a rendezvous together even if they met at one port, and no rank
starts before its launcher has. The launcher itself never restarts ranks: a gang restarts whole, as a new attempt.
"""

import math
import re
from typing import Any, Final

from controller.launch.program import program
from controller.launch.types import Commands, Gang, LaunchError, PlacedWorker
from muster.quantity import parse_duration

MODULE: Final = "torch.distributed.run"
LOG_REGEX: Final = r"torchrun/[^/]+/attempt_\d+/(?P<rank>\d+)/(?P<stream>stdout|stderr)\.log"

_PYTHON: Final = re.compile(r"(.*/)?python(3(\.\d+)?)?")
_LAUNCHER: Final = re.compile(r"(.*/)?torchrun")
_DEFAULT_GRACE: Final = "30s"


def ranks(spec: dict[str, Any], worker: PlacedWorker) -> int:
    """Ranks of a worker: as the manifest says, else one for each device, at least one."""
    return int(spec.get("ranksPerWorker") or len(worker.devices) or 1)


def check(spec: dict[str, Any]) -> None:
    """Raises LaunchError when the command starts a launcher of its own."""
    _split(program(spec))


def commands(gang: Gang, worker: int) -> Commands:
    """Raises LaunchError when the command starts a launcher of its own."""
    spec = gang.job.spec
    python, target = _split(program(spec))
    grace = parse_duration((spec.get("checkpoint") or {}).get("grace", _DEFAULT_GRACE))
    flags = {
        "--nnodes": len(gang.workers),
        "--nproc-per-node": gang.ranks[worker],
        "--node-rank": worker,
        "--rdzv-backend": "static",
        "--rdzv-id": gang.attempt.rendezvous,
        "--master-addr": gang.master.address,
        "--master-port": gang.master_port,
        "--max-restarts": 0,
        "--log-dir": "%{logs}/torchrun",
        "--redirects": 3,
    }
    options = [word for flag, value in flags.items() for word in (flag, str(value))]
    return Commands(
        processes=((*python, "-m", MODULE, *options, *target),),
        env={"OMP_NUM_THREADS": "1", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(math.ceil(grace))},
        log_regex=LOG_REGEX,
    )


def _split(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The interpreter that runs the launcher, and what the launcher runs. A plain Python program runs under the
    user's own interpreter; any other program is started as it is, in place of the interpreter."""
    first, rest = words[0], list(words[1:])
    if _LAUNCHER.fullmatch(first) or (_PYTHON.fullmatch(first) and MODULE in rest[:3]):
        raise LaunchError("framework torchrun brings its own launcher: name the program alone, e.g. [python, train.py]")
    if not _PYTHON.fullmatch(first):
        return ("%{python}",), ("--no-python", *words)
    if rest and rest[0] == "-u":
        rest = rest[1:]  # the launcher's ranks are unbuffered anyway
    if rest and not rest[0].startswith("-"):
        return (first,), tuple(rest)
    if len(rest) > 1 and rest[0] == "-m":
        return (first,), ("--module", *rest[1:])
    return (first,), ("--no-python", *words)
