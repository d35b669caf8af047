"""framework `command`: the program itself, once for each rank, with the variables of `env://` rendezvous."""

from typing import Any

from controller.launch.program import program
from controller.launch.types import Commands, Gang, PlacedWorker


def ranks(spec: dict[str, Any], worker: PlacedWorker) -> int:
    """Processes of a worker: one unless the manifest says more."""
    return int(spec.get("ranksPerWorker") or 1)


def check(spec: dict[str, Any]) -> None:
    """Any program will do."""


def commands(gang: Gang, worker: int) -> Commands:
    count, first = gang.ranks[worker], gang.first_rank(worker)
    return Commands(
        processes=(program(gang.job.spec),) * count,
        process_env=tuple(
            {
                "RANK": str(first + local),
                "LOCAL_RANK": str(local),
                "WORLD_SIZE": str(gang.world_size),
                "LOCAL_WORLD_SIZE": str(count),
                "MASTER_ADDR": gang.master.address,
                "MASTER_PORT": str(gang.master_port),
            }
            for local in range(count)
        ),
    )
