"""Frameworks that torchrun starts, with what each needs besides: Megatron-LM, ColossalAI, PyTorch on Ascend, and
torchrun's own elastic rendezvous."""

from typing import Any, Final

from msgspec.structs import replace

from controller.launch import torchrun
from controller.launch.environment import folder
from controller.launch.extended import extended
from controller.launch.types import Commands, Gang

RESTARTS: Final = 3
"""How often the elastic launcher starts its ranks anew before the gang restarts as a new attempt."""


def megatron(gang: Gang, worker: int) -> Commands:
    """Saves and stops at SIGTERM; loads from where it saves. Its ranks follow the workers, which come in the fabric's
    order, so that tensor parallel groups, the innermost, stay inside a node."""
    options: dict[str, object] = {"--exit-signal-handler": None}
    checkpoint = gang.job.spec.get("checkpoint")
    if checkpoint:
        options |= dict.fromkeys(("--save", "--load"), folder(checkpoint["directory"]))
    started = torchrun.commands(gang, worker)
    processes = tuple(extended(words, options) for words in started.processes)
    return replace(started, processes=processes, env={**started.env, "CUDA_DEVICE_MAX_CONNECTIONS": "1"})


def ascend(gang: Gang, worker: int) -> Commands:
    """HCCL meets by way of the node's address. It gives up connecting before it gives up executing, so that the first
    error is the true one."""
    started = torchrun.commands(gang, worker)
    return replace(started, env={**started.env, **hccl()})


def hccl() -> dict[str, str]:
    return {
        "HCCL_IF_IP": "%{address}",
        "HCCL_SOCKET_IFNAME": "%{interface}",
        "TP_SOCKET_IFNAME": "%{interface}",
        "HCCL_WHITELIST_DISABLE": "1",
        "HCCL_CONNECT_TIMEOUT": "1200",
        "HCCL_EXEC_TIMEOUT": "1800",
    }


def elastic(gang: Gang, worker: int) -> Commands:
    """The c10d rendezvous gives out the node ranks itself. The first worker's launcher holds its store."""
    started = torchrun.commands(gang, worker)
    changed: dict[str, str] = {
        "--rdzv-backend": "c10d",
        "--master-addr": f"{gang.master.address}:{gang.master_port}",
        "--max-restarts": str(RESTARTS),
    }
    return replace(started, processes=tuple(_dynamic(words, changed) for words in started.processes))


def _dynamic(words: tuple[str, ...], changed: dict[str, Any]) -> tuple[str, ...]:
    """The launcher's own options lie before the program; each has one value."""
    begin = words.index(torchrun.MODULE) + 1
    head, options, place = list(words[:begin]), list[str](), begin
    while words[place] != "--redirects":
        flag, text = words[place : place + 2]
        if flag not in ("--node-rank", "--master-port"):
            options += ["--rdzv-endpoint" if flag == "--master-addr" else flag, changed.get(flag, text)]
        place += 2
    return (*head, *options, *words[place:])
