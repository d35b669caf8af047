"""The golden files. `python -m tests.launch.golden` writes them anew; read the difference before you commit it."""

from pathlib import Path
from typing import Any, Final

import msgspec

from controller.launch.ports import ports_needed
from tests.launch.gangs import job_of, launch

FOLDER: Final = Path(__file__).parent / "golden"
CASES: Final[dict[str, tuple[str, int, dict[str, Any]]]] = {
    "command-1": ("command", 1, {}),
    "command-2": ("command", 2, {"ranksPerWorker": 2, "env": {"LR": "0.1"}}),
    "command-4": ("command", 4, {"checkpoint": {"directory": "/ckpt/digits"}}),
    "torchrun-1": ("torchrun", 1, {}),
    "torchrun-2": ("torchrun", 2, {"checkpoint": {"directory": "/ckpt/digits", "grace": "2m"}}),
    "torchrun-4": ("torchrun", 4, {"ranksPerWorker": 1, "progress": {"regex": r"step (?P<step>\d+)"}}),
}
ENGINES: Final = {
    "vllm": ["vllm", "serve", "meta-llama/Llama-3.1-70B", "--tensor-parallel-size", "2"],
    "vllm-ascend": ["vllm", "serve", "Qwen/Qwen3-32B", "--data-parallel-size", "4", "--port", "8000"],
    "orca": ["vllm", "serve", "meta-llama/Llama-3.1-8B"],
    "sglang": ["python", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-32B", "--tp", "8"],
}
OTHERS: Final = (
    "torchrun-elastic",
    "deepspeed",
    "jax",
    "megatron",
    "colossalai",
    "torch-npu",
    "ray",
    "verl",
    "openrlhf",
)
for _framework in (*OTHERS, *ENGINES):
    for _count in (1, 2, 4):
        _spec: dict[str, Any] = {"command": ENGINES[_framework]} if _framework in ENGINES else {}
        CASES[f"{_framework}-{_count}"] = (_framework, _count, _spec)


def rendered(case: str) -> str:
    framework, workers, spec = CASES[case]
    templates = launch(
        job_of(framework, **spec),
        workers,
        ports=ports_needed({"framework": framework}),
        resume="/ckpt/digits/step-5" if "checkpoint" in spec else "",
    )
    return msgspec.json.format(msgspec.json.encode(templates, order="sorted"), indent=1).decode() + "\n"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for case in CASES:
        (FOLDER / f"{case}.json").write_text(rendered(case))


if __name__ == "__main__":
    main()
