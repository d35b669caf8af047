"""Gangs that share 64 GPUs in time: the Pollux set-up (OSDI'21), `./run bench pollux --data DIR [--json]`.

16 nodes x 4 T4, measured throughput and statistical efficiency, 30 s a start or change. `tiresias` is here to check the
simulator: its average completion times are published by the second. `muster` runs rigid jobs and learns their sizes by the names of
their programs; `muster_unnamed` has no names; `muster_elastic` gives each job 1 to twice its GPUs at a fixed batch.
"""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks import training
from benchmarks.applications import Application, load
from benchmarks.common import BadInput, Progress, aligned, chosen, folder, guarded, machine, parser, plotting, say
from benchmarks.training_planned import Planned
from benchmarks.training_policies import Tiresias, fifo, remaining_time, shortest

SOURCE = "github.com/petuum/adaptdl, branch osdi21-artifact, folder simulator"
PUBLISHED = {"workload-1": 2473.65, "workload-2": 5144.96, "workload-3": 3876.26, "workload-4": 3280.26}
POLICIES: dict[str, Callable[[], training.Policy]] = {
    "tiresias": Tiresias,
    "fifo": lambda: fifo,
    "sjf_oracle": lambda: shortest(remaining_time, preempt=False),
    "srtf_oracle": lambda: shortest(remaining_time, preempt=True),
    "muster": Planned,
    "muster_unnamed": lambda: Planned(named=False),
    "muster_elastic": lambda: Planned(elastic=True),
}


def main() -> None:
    arguments = parser("pollux", __doc__.splitlines()[0], SOURCE)
    arguments.add_argument(
        "--workload", action="append", metavar="NAME", help="a workload of DIR/pollux/workloads, or a CSV file"
    )
    options = arguments.parse_args()
    data = folder(options.data, "pollux", "profiles", SOURCE)
    applications = load(data / "profiles")
    workloads = {path.stem: path for path in (find(data, name) for name in options.workload or PUBLISHED)}
    names = chosen(options.policy, POLICIES)
    progress = Progress("pollux", len(names) * len(workloads))
    outcomes: dict[str, dict[str, training.Outcome]] = {name: {} for name in names}
    for name in names:
        for workload, path in workloads.items():
            outcomes[name][workload] = training.simulate(training.read(path, applications), POLICIES[name]())
            progress.step(f"{name} {workload}")
    policies = {name: measured(outcomes[name]) for name in names}
    say(report(data, workloads, applications, policies), table(policies), options.json)
    if options.plot:
        draw(options.plot, outcomes)


def find(data: Path, name: str) -> Path:
    """A workload's file: by its name, by its number, or by its path."""
    for path in (data / "workloads" / f"{name}.csv", data / "workloads" / f"workload-{name}.csv", Path(name)):
        if path.is_file():
            return path
    raise BadInput(f"no workload {name!r}: neither {data}/workloads/{name}.csv nor {name} is a file")


def measured(outcomes: dict[str, training.Outcome]) -> dict[str, Any]:
    """Means over the workloads, hours; and each workload by itself."""
    each = {
        workload: {
            "avg_jct_s": fmean(outcome.durations),
            "avg_jct_h": fmean(outcome.durations) / 3600,
            "p99_jct_h": float(np.percentile(outcome.durations, 99)) / 3600,
            "makespan_h": outcome.makespan / 3600,
            "restarts_per_job": outcome.restarts,
        }
        for workload, outcome in outcomes.items()
    }
    keys = ("avg_jct_h", "p99_jct_h", "makespan_h", "restarts_per_job")
    return {**{key: fmean(one[key] for one in each.values()) for key in keys}, "workloads": each}


def report(
    data: Path, workloads: dict[str, Path], applications: dict[str, Application], policies: dict[str, Any]
) -> dict[str, Any]:
    setup = {
        "nodes": training.NODES,
        "gpus_per_node": training.GPUS,
        "interval_s": training.INTERVAL,
        "restart_s": training.STALL,
    }
    deviation = {
        workload: 100 * (one["avg_jct_s"] / PUBLISHED[workload] - 1)
        for workload, one in policies.get("tiresias", {}).get("workloads", {}).items()
        if workload in PUBLISHED and workloads[workload].parent == data / "workloads"
    }
    return {
        "benchmark": "pollux",
        "setup": setup,
        "input": {
            "data": str(data),
            "workloads": {name: str(path) for name, path in workloads.items()},
            "applications": sorted(applications),
        },
        "machine": machine(),
        "policies": policies,
        "published": {"tiresias_avg_jct_s": PUBLISHED},
        "tiresias_deviation_percent": deviation,
    }


def table(policies: dict[str, Any]) -> str:
    header = ["policy", "avg JCT h", "p99 h", "makespan h", "restarts/job"]
    workloads = list(next(iter(policies.values()))["workloads"])
    rows = [
        [
            name,
            *(one[key] for key in ("avg_jct_h", "p99_jct_h", "makespan_h", "restarts_per_job")),
            *(one["workloads"][workload]["avg_jct_s"] for workload in workloads),
        ]
        for name, one in policies.items()
    ]
    if set(workloads) == set(PUBLISHED):
        rows.insert(0, ["tiresias, published", fmean(PUBLISHED.values()) / 3600, None, None, None, *PUBLISHED.values()])
    return aligned([*header, *(f"{workload} s" for workload in workloads)], rows)


def draw(file: Path, outcomes: dict[str, dict[str, training.Outcome]]) -> None:
    pyplot = plotting()
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, runs in outcomes.items():
        hours = np.sort([seconds / 3600 for outcome in runs.values() for seconds in outcome.durations])
        axes.plot(hours, np.arange(1, len(hours) + 1) / len(hours), label=name)
    axes.set(xscale="log", xlabel="hours from submission to end", ylabel="share of jobs", title="Completion times")
    axes.legend()
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    guarded(main)
