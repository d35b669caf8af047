"""Engines that serve: the user's own command line, and behind it what joins the workers to one engine.

The first worker answers requests, at the last port of its block unless the command says another.
"""

import re
from typing import Any, Final

from controller.launch.extended import extended, has, value
from controller.launch.program import program
from controller.launch.types import Commands, Gang, LaunchError, PlacedWorker
from controller.launch.variants import hccl

CONTINUOUS: Final[dict[str, object]] = {"--enable-chunked-prefill": None, "--max-num-seqs": 256}
"""Orca's two ideas, iteration-level scheduling and selective batching, as vLLM has them."""


def ranks(spec: dict[str, Any], worker: PlacedWorker) -> int:
    """The engine is one process, which starts its own."""
    return 1


def check_vllm(spec: dict[str, Any]) -> None:
    """Raises LaunchError when the command is no `vllm serve`, or names what Muster gives."""
    words = program(spec)
    served = re.fullmatch(r"(.*/)?vllm", words[0]) and words[1:2] == ("serve",)
    module = any("vllm.entrypoints" in word for word in words)
    if not served and not module and spec.get("script") is None:
        raise LaunchError("expected the engine's own command, e.g. [vllm, serve, MODEL, --tensor-parallel-size, '8']")
    _not_ours(
        words, "--node-rank", "--nnodes", "--master-addr", "--data-parallel-start-rank", "--data-parallel-address"
    )


def check_sglang(spec: dict[str, Any]) -> None:
    """Raises LaunchError when the command names what Muster gives."""
    _not_ours(program(spec), "--node-rank", "--nnodes", "--dist-init-addr")


def vllm(gang: Gang, worker: int) -> Commands:
    """Over several workers one engine: by data parallel ranks where the command has `--data-parallel-size`, else by
    vLLM's own multi-node executor."""
    words = program(gang.job.spec)
    options: dict[str, object] = {}
    if len(gang.workers) > 1:
        size = value(words, "--data-parallel-size", "-dp")
        options = _data_parallel(gang, worker, int(size)) if size and size.isdigit() else _nodes(gang, worker)
    if worker == 0:
        options |= {"--host": "0.0.0.0", "--port": gang.master.ports[-1]}
    elif not has(words, "--headless", "--data-parallel-hybrid-lb"):
        options |= {"--headless": None}
    return Commands(processes=(extended(words, options),), env={"VLLM_HOST_IP": "%{address}"})


def _nodes(gang: Gang, worker: int) -> dict[str, object]:
    return {
        "--nnodes": len(gang.workers),
        "--node-rank": worker,
        "--master-addr": gang.master.address,
        "--master-port": gang.master_port,
    }


def _data_parallel(gang: Gang, worker: int, size: int) -> dict[str, object]:
    count = len(gang.workers)
    if size % count:
        raise LaunchError(f"--data-parallel-size: {size} ranks do not go evenly onto {count} workers")
    return {
        "--data-parallel-size-local": size // count,
        "--data-parallel-start-rank": worker * (size // count),
        "--data-parallel-address": gang.master.address,
        "--data-parallel-rpc-port": gang.master.ports[1],
    }


def orca(gang: Gang, worker: int) -> Commands:
    started = vllm(gang, worker)
    return Commands(processes=tuple(extended(words, CONTINUOUS) for words in started.processes), env=started.env)


def vllm_ascend(gang: Gang, worker: int) -> Commands:
    started = vllm(gang, worker)
    return Commands(processes=started.processes, env={**started.env, **hccl()})


def sglang(gang: Gang, worker: int) -> Commands:
    options: dict[str, object] = {"--host": "0.0.0.0", "--port": gang.workers[worker].ports[-1]}
    if len(gang.workers) > 1:
        options = {
            "--dist-init-addr": f"{gang.master.address}:{gang.master_port}",
            "--nnodes": len(gang.workers),
            "--node-rank": worker,
            **options,
        }
    return Commands(processes=(extended(program(gang.job.spec), options),))


def _not_ours(words: tuple[str, ...], *flags: str) -> None:
    for flag in flags:
        if has(words, flag):
            raise LaunchError(f"{flag} is given by Muster to each worker: leave it out")
