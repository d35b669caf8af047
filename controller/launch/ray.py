"""frameworks `ray`, `verl` and `openrlhf`: a Ray cluster for each attempt, and on its first worker the user's driver.

The head waits until every node of the gang is alive before the driver starts; the driver's end is the gang's. Ray takes
only ports of the worker's block, and a folder of its own, so that several clusters may share a node.
"""

from typing import Any, Final

from controller.launch import command
from controller.launch.program import program
from controller.launch.types import Commands, Gang, PlacedWorker

_OWN: Final = 10

_HEAD: Final = """\
ray start --head {flags} || exit
until python3 -c 'import ray, sys; ray.init(address="{address}", log_to_driver=False)
sys.exit(sum(n["Alive"] for n in ray.nodes()) < {nodes})' >/dev/null 2>&1; do sleep 1; done
"$@"
"""

check = command.check


def ranks(spec: dict[str, Any], worker: PlacedWorker) -> int:
    """One process a worker: Ray starts its own."""
    return 1


def commands(gang: Gang, worker: int) -> Commands:
    placed, address = gang.workers[worker], f"{gang.master.address}:{gang.master_port}"
    flags = _flags(placed, worker == 0)
    if worker == 0:
        script = _HEAD.format(flags=" ".join(flags), address=address, nodes=len(gang.workers))
        words: tuple[str, ...] = ("/bin/sh", "-c", script, "driver", *program(gang.job.spec))
    else:
        words = ("ray", "start", f"--address={address}", *flags, "--block")
    return Commands(processes=(words,), env={"RAY_ADDRESS": address, "RAY_TMPDIR": _folder(gang, worker)})


def _folder(gang: Gang, worker: int) -> str:
    """A short one: the path of a Unix socket below it has 107 letters at most."""
    return f"/tmp/muster-ray-{gang.attempt.uid[-8:]}-{worker}"


def _flags(placed: PlacedWorker, head: bool) -> tuple[str, ...]:
    ports = placed.ports
    own = (f"--port={ports[0]}", f"--dashboard-port={ports[1]}") if head else ()
    return (
        *own,
        "--node-ip-address=%{address}",
        f"--node-manager-port={ports[3]}",
        f"--object-manager-port={ports[4]}",
        f"--runtime-env-agent-port={ports[5]}",
        f"--dashboard-agent-grpc-port={ports[6]}",
        f"--dashboard-agent-listen-port={ports[7]}",
        f"--metrics-export-port={ports[8]}",
        f"--min-worker-port={ports[_OWN]}",
        f"--max-worker-port={ports[-2]}",
        f"--num-gpus={len(placed.devices)}",
        "--disable-usage-stats",
    )
