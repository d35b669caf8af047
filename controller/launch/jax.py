"""framework `jax`: one process a worker (or more), each told of the coordinator, which is the first process.

`jax.distributed.initialize()` reads JAX_COORDINATOR_ADDRESS by itself; JAX_NUM_PROCESSES and JAX_PROCESS_ID are what a program
passes as num_processes and process_id. When one process dies, JAX ends the others: the gang restarts whole.
"""

from typing import Any

from controller.launch import command
from controller.launch.types import Commands, Gang

ranks, check = command.ranks, command.check


def commands(gang: Gang, worker: int) -> Commands:
    plain = command.commands(gang, worker)
    common = {
        "JAX_COORDINATOR_ADDRESS": f"{gang.master.address}:{gang.master_port}",
        "JAX_NUM_PROCESSES": str(gang.world_size),
    }
    return Commands(
        processes=plain.processes,
        process_env=tuple(
            {**env, **common, "JAX_PROCESS_ID": env["RANK"], **_devices(gang, worker, int(env["LOCAL_RANK"]))}
            for env in plain.process_env
        ),
    )


def _devices(gang: Gang, worker: int, local: int) -> dict[str, Any]:
    """Which of the worker's devices are this process's, where several processes share them."""
    count, devices = gang.ranks[worker], len(gang.workers[worker].devices)
    if count == 1 or devices < count:
        return {}
    each = devices // count
    return {"JAX_LOCAL_DEVICE_IDS": ",".join(str(device) for device in range(local * each, (local + 1) * each))}
