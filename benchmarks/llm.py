"""An inference service under real requests: `./run bench llm --data DIR [--json]`.

Azure's requests (arrival, context and generated tokens) drive the autoscaler. `fixed` keeps the peak's replicas, `proportional` is the common
autoscaler (ratio to target, every 15 s), `muster` is the project's. Beside the waits stands what they cost in replica hours.
"""

from collections.abc import Callable
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks import serving
from benchmarks.common import BadInput, Progress, aligned, chosen, folder, guarded, machine, parser, plotting, say

SOURCE = "github.com/Azure/AzurePublicDataset (LLM inference traces 2023)"
WORKLOADS = ("AzureLLMInferenceTrace_conv", "AzureLLMInferenceTrace_code")


def main() -> None:
    arguments = parser("llm", __doc__.splitlines()[0], SOURCE)
    arguments.add_argument(
        "--workload", action="append", metavar="NAME", help="a trace of DIR/azure-llm, or a CSV file"
    )
    arguments.add_argument("--speed", type=float, default=1.0, help="requests come so many times as fast (default 1)")
    options = arguments.parse_args()
    if not 0 < options.speed < 1e6:
        raise BadInput(f"--speed is {options.speed}; wanted a number above 0")
    data = folder(options.data, "azure-llm", f"{WORKLOADS[0]}.csv", SOURCE)
    workloads = {
        path.stem: serving.read(path, options.speed)
        for path in (find(data, name) for name in options.workload or WORKLOADS)
    }
    names = chosen(options.policy, ("fixed", "proportional", "muster"))
    progress = Progress("llm", len(names) * len(workloads))
    runs: dict[str, dict[str, serving.Outcome]] = {name: {} for name in names}
    for name in names:
        for workload, requests in workloads.items():
            peak = busiest(requests)
            policies: dict[str, Callable[[], serving.Policy]] = {
                "fixed": lambda count=peak: serving.fixed(count),
                "proportional": serving.proportional,
                "muster": serving.planned,
            }
            first = peak if name == "fixed" else 1
            runs[name][workload] = serving.simulate(requests, policies[name](), first)
            progress.step(f"{name} {workload}")
    policies_ = {
        name: {"workloads": {workload: summary(run) for workload, run in each.items()}} for name, each in runs.items()
    }
    report = {
        "benchmark": "llm",
        "setup": {
            "slots_per_replica": serving.SLOTS,
            "prefill_tokens_per_s": serving.PREFILL,
            "seconds_per_token": serving.TOKEN,
            "replica_start_s": serving.START,
            "target": serving.TARGET,
            "speed": options.speed,
        },
        "input": {"data": str(data), "requests": {workload: len(requests) for workload, requests in workloads.items()}},
        "machine": machine(),
        "policies": policies_,
    }
    say(report, table(policies_), options.json)
    if options.plot:
        draw(options.plot, runs)


def find(data: Path, name: str) -> Path:
    for path in (data / f"{name}.csv", data / f"AzureLLMInferenceTrace_{name}.csv", Path(name)):
        if path.is_file():
            return path
    raise BadInput(f"no workload {name!r}: neither {data}/{name}.csv nor {name} is a file")


def busiest(requests: list[serving.Request]) -> int:
    """Replicas for the most requests that are in flight at once when none waits."""
    steps = sorted([(one.at, 1) for one in requests] + [(one.at + one.seconds, -1) for one in requests])
    return max(1, ceil(int(np.cumsum([step for _, step in steps]).max()) / serving.SLOTS))


def summary(run: serving.Outcome) -> dict[str, Any]:
    return {
        "mean_wait_s": fmean(run.waits),
        "p99_wait_s": float(np.percentile(run.waits, 99)),
        "waited_over_1s_percent": 100 * fmean(wait > 1 for wait in run.waits),
        "replica_hours": run.replica_hours,
        "most_replicas": run.most,
        "changes": run.changes,
    }


def table(policies: dict[str, Any]) -> str:
    rows = [
        [f"{name}, {workload}", *one.values()]
        for name, each in policies.items()
        for workload, one in each["workloads"].items()
    ]
    return aligned(["policy, workload", "mean wait s", "p99 s", "% over 1 s", "replica hours", "most", "changes"], rows)


def draw(file: Path, runs: dict[str, dict[str, serving.Outcome]]) -> None:
    pyplot = plotting()
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, each in runs.items():
        for workload, run in each.items():
            axes.scatter(run.replica_hours, np.percentile(run.waits, 99), label=f"{name}, {workload}")
    axes.set(xlabel="replica hours", ylabel="p99 wait, s", title="What a wait costs")
    axes.legend(fontsize="small")
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    guarded(main)
