"""`muster init`."""

from pathlib import Path
from typing import Final, get_args

import click

from cli.errors import Exit, Failure, suggestion
from cli.output import say
from muster.resources.job import Framework

ALIASES: Final = {
    "pytorch": "torchrun", "ddp": "torchrun", "fsdp": "torchrun", "fsdp2": "torchrun", "megatron-lm": "megatron",
    "colossal-ai": "colossalai", "torch_npu": "torch-npu", "ascend": "torch-npu", "rocm": "torchrun",
}  # fmt: skip
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "command": (
        "[python, train.py]",
        "started once for each rank, with RANK, WORLD_SIZE, MASTER_ADDR, ... in its environment",
    ),
    "torchrun": ("[python, train.py]", "the program alone: Muster brings the launcher"),
    "deepspeed": ("[python, train.py, --deepspeed_config, ds.json]", "the program alone: Muster brings the launcher"),
    "jax": ("[python, train.py]", "calls jax.distributed.initialize with JAX_NUM_PROCESSES and JAX_PROCESS_ID"),
    "megatron": (
        "[python, pretrain_gpt.py, --tensor-model-parallel-size, '8']",
        "--save, --load and --exit-signal-handler are added",
    ),
    "colossalai": ("[python, train.py]", "calls colossalai.launch_from_torch()"),
    "ray": ("[python, driver.py]", "the driver: it starts when all nodes of the Ray cluster are alive"),
    "verl": (
        "[python, -m, verl.trainer.main_ppo, trainer.nnodes=2, trainer.n_gpus_per_node=8, trainer.resume_mode=auto]",
        "the driver: it starts when all nodes of the Ray cluster are alive",
    ),
    "openrlhf": ("[python, -m, openrlhf.cli.train_ppo_ray]", "the driver, as with ray"),
    "vllm": (
        "[vllm, serve, meta-llama/Llama-3.1-8B-Instruct, --tensor-parallel-size, '8', --pipeline-parallel-size, '2']",
        "as on one node: Muster adds what joins the nodes",
    ),
    "sglang": (
        "[python, -m, sglang.launch_server, --model-path, Qwen/Qwen3-32B, --tp, '16']",
        "as on one node: Muster adds what joins the nodes",
    ),
}
LIKE: Final = {
    "torchrun-elastic": "torchrun",
    "torch-npu": "torchrun",
    "vllm-ascend": "vllm",
    "orca": "vllm",
}
SERVING: Final = frozenset({"vllm", "vllm-ascend", "orca", "sglang"})
ASCEND: Final = frozenset({"torch-npu", "vllm-ascend"})

_HEAD: Final = """\
apiVersion: muster.dev/v1
kind: Job
metadata:
  name: {name}
spec:
  framework: {framework}
  workers: 2                        # one on each node: all of them start, or none
  accelerators:                     # leave out for a run on CPUs
  - {{type: {device}, count: 8}}       # devices of each worker
  cpu: 16                           # of each worker
  memory: 64Gi
  # {about}
  command: {command}
  # workdir: .                      # relative: to the folder of this file
  # env: {{NAME: value}}              # wins over what Muster sets
  # image: registry/image:tag       # the container it runs in; the node's own files when left out
"""
_CHECKPOINT: Final = """\
  checkpoint:
    directory: checkpoints          # the same on all nodes; MUSTER_RESUME_FROM names the one to go on from
    grace: 2m                       # to save in when it is asked to stop
"""
_FOOT: Final = """\
  recovery:
    maxRestarts: 20                 # a failed rank or node restarts the whole gang, elsewhere where that helps
"""


def manifest(framework: str, name: str) -> str:
    """A commented manifest of a framework by its own name."""
    command, about = COMMANDS[LIKE.get(framework, framework)]
    device = "ascend-910b" if framework in ASCEND else "h100"
    head = _HEAD.format(name=name, framework=framework, device=device, command=command, about=about)
    return head + ("" if framework in SERVING else _CHECKPOINT) + _FOOT


@click.command(
    epilog="""\b
Examples:
  muster init torchrun > job.yaml
  muster init vllm --name chat -f chat.yaml"""
)
@click.argument("framework")
@click.option("--name", metavar="NAME", help="Of the job; the framework's own when left out.")
@click.option("-f", "--filename", "file", metavar="FILE", help="Write there, if nothing is there yet.")
def init(framework: str, name: str | None, file: str | None) -> None:
    """Write a commented manifest for a framework, to begin with."""
    known = list(get_args(Framework))
    found = ALIASES.get(framework.lower(), framework.lower())
    if found not in known:
        hint = suggestion(found, [*known, *ALIASES]) or f"frameworks: {', '.join(known)}"
        raise Failure(f'unknown framework "{framework}"', code=Exit.USAGE, hint=hint)
    text = manifest(found, name or found)
    if file is None or file == "-":
        say(text.rstrip("\n"))
        return
    try:
        with Path(file).open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        raise Failure(f"{file} is there already", code=Exit.REFUSED) from None
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}") from error
    say(f"{file} written; what each rank would get: muster apply -f {file} --dry-run=server -o launch")
