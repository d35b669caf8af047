"""The environment that every rank has, whatever its framework."""

from typing import Final

from controller.launch.program import literal
from controller.launch.types import Gang, PlacedWorker
from muster.accelerators import catalogue

RECORDERS: Final = {
    "TORCH_FR_BUFFER_SIZE": "2000",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "%{dir}/.recorders/dump.",
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "%{dir}/.recorders/pipe.",
}
"""PyTorch's flight recorders, where the agent asks for them and reads them when a gang seems to hang."""
INTERFACES: Final = {"GLOO_SOCKET_IFNAME": "%{interface}", "NCCL_SOCKET_IFNAME": "%{interface}"}


def environment(gang: Gang, worker: int) -> dict[str, str]:
    """What Muster tells the ranks of one worker, without the user's own values."""
    job, attempt, placed = gang.job, gang.attempt, gang.workers[worker]
    env = {
        "MUSTER_JOB": job.name,
        "MUSTER_JOB_UID": job.uid,
        "MUSTER_JOB_NUMBER": str(job.number),
        "MUSTER_NAMESPACE": job.namespace,
        "MUSTER_ATTEMPT": str(attempt.number),
        "MUSTER_ATTEMPT_UID": attempt.uid,
        "MUSTER_EPOCH": str(attempt.epoch),
        "MUSTER_ROLE": placed.role,
        "MUSTER_WORKER_INDEX": str(placed.index),
        "MUSTER_WORKERS": str(len(gang.workers)),
        "MUSTER_NODE": placed.node,
        "MUSTER_NODE_ADDRESSES": ",".join(other.address for other in gang.workers),
        "MUSTER_MASTER_ADDR": gang.master.address,
        "MUSTER_MASTER_PORT": str(gang.master_port),
        "MUSTER_PORTS": ",".join(str(port) for port in placed.ports),
        "MUSTER_RANKS_PER_WORKER": str(gang.ranks[worker]),
        "MUSTER_FIRST_RANK": str(gang.first_rank(worker)),
        "MUSTER_WORLD_SIZE": str(gang.world_size),
        "MUSTER_RENDEZVOUS_ID": attempt.rendezvous,
        "MUSTER_RESUME_FROM": "%{resume}",
        "MUSTER_REPORT": "%{report}",
        "PYTHONUNBUFFERED": "1",
        **INTERFACES,
    }
    env |= _roles(gang)
    checkpoint = job.spec.get("checkpoint")
    if checkpoint:
        env["MUSTER_CHECKPOINT_DIR"] = folder(checkpoint["directory"])
    kind = catalogue().get(placed.device_type or "")
    if kind is not None and placed.devices:
        env |= RECORDERS if kind.vendor == "nvidia" else {}
        env[kind.visible_devices] = ",".join(str(device) for device in placed.devices)
    return env


def _roles(gang: Gang) -> dict[str, str]:
    """Where the workers of each role are, in their rank order. The port of an endpoint is the last of the worker's
    block, which nothing of Muster's uses."""
    roles: dict[str, list[PlacedWorker]] = {}
    for worker in gang.peers:
        roles.setdefault(worker.role, []).append(worker)
    env = {"MUSTER_ROLES": ",".join(roles)} if roles else {}
    for role, workers in roles.items():
        name = f"MUSTER_ROLE_{role.upper().replace('-', '_')}"
        env[f"{name}_ADDRESSES"] = ",".join(worker.address for worker in workers)
        env[f"{name}_ENDPOINTS"] = ",".join(f"{worker.address}:{worker.ports[-1]}" for worker in workers)
    return env


def folder(directory: str) -> str:
    """An absolute folder as it is; a relative one below the worker's own."""
    return literal(directory) if directory.startswith("/") else f"%{{dir}}/{literal(directory)}"
