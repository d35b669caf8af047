"""Gangs on a real Clos fabric: Lingjun's hosts, Philly's jobs, `./run bench fabric --data DIR [--json]`.

847 hosts (8 GPUs each is assumed), 3 aggregation groups, 119 leaf groups; jobs arrive so that they offer 90 % of the GPU time.
Spans are leaf and aggregation groups of each gang of several hosts over the fewest that the empty fabric needs, and over the
fewest that were possible when it was decided. `muster_fifo` is the planner's placement in the baselines' order of service, first come first served;
`muster` serves by expected work, learned from the runs of the same virtual cluster and size.
"""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.common import BadInput, Progress, aligned, chosen, folder, guarded, machine, parser, plotting, say
from benchmarks.gangs import (
    GPUS,
    Arrival,
    Chooser,
    Expected,
    Ledger,
    Planned,
    Run,
    best_fit,
    first_fit,
    randomly,
    read_fabric,
    read_jobs,
)
from controller.scheduling.fabric import Fabric

SOURCE = "github.com/alibaba/alibaba-lingjun-dataset-2023 (topo.csv) and the Philly traces (philly.csv)"
POLICIES: dict[str, Callable[[Fabric, int], tuple[Chooser, Arrival]]] = {
    "random": lambda fabric, seed: (randomly(np.random.default_rng(seed)), Arrival()),
    "first_fit": lambda fabric, seed: (first_fit(by_name(fabric)), Arrival()),
    "best_fit": lambda fabric, seed: (best_fit(by_name(fabric)), Arrival()),
    "muster_fifo": lambda fabric, seed: (Planned(fabric), Arrival()),
    "muster": lambda fabric, seed: (Planned(fabric), Expected()),
}


def main() -> None:
    arguments = parser("fabric", __doc__.splitlines()[0], SOURCE)
    arguments.add_argument("--workload", metavar="FILE", help="other jobs of the same form as philly.csv")
    arguments.add_argument("--topology", metavar="FILE", help="another fabric of the same form as topo.csv")
    arguments.add_argument("--load", type=float, default=0.9, help="offered GPU time over capacity (default 0.9)")
    arguments.add_argument("--jobs", type=int, metavar="N", help="only the first N jobs (default: all)")
    arguments.add_argument("--seed", type=int, default=42, help="of the random policy (default 42)")
    options = arguments.parse_args()
    if not 0 < options.load < 10:
        raise BadInput(f"--load is {options.load}; wanted a number above 0, as 0.9")
    if options.jobs is not None and options.jobs < 1:
        raise BadInput(f"--jobs is {options.jobs}; wanted at least 1")
    topology = Path(options.topology or folder(options.data, "lingjun", "topo.csv", SOURCE) / "topo.csv")
    workload = Path(options.workload or folder(options.data, "pollux", "philly.csv", SOURCE) / "philly.csv")
    fabric = read_fabric(topology)
    jobs = read_jobs(workload, len(fabric.nodes), options.load, options.jobs)
    names = chosen(options.policy, POLICIES)
    progress = Progress("fabric", len(names))
    ledgers = {}
    for name in names:
        ledgers[name] = Run(fabric, *POLICIES[name](fabric, options.seed)).run(jobs)
        progress.step(name)
    policies = {name: summary(ledger) for name, ledger in ledgers.items()}
    report = {
        "benchmark": "fabric",
        "setup": {"load": options.load, "gpus_per_host": GPUS, "gpus_per_host_assumed": True, "seed": options.seed},
        "input": {
            "topology": str(topology),
            "workload": str(workload),
            "hosts": len(fabric.nodes),
            "aggregation_groups": len(fabric.levels[1].names),
            "leaf_groups": len(fabric.levels[2].names),
            "jobs": len(jobs),
            "gangs": sum(job.hosts > 1 for job in jobs),
        },
        "machine": machine(),
        "policies": policies,
    }
    say(report, table(policies), options.json)
    if options.plot:
        draw(options.plot, ledgers)


def by_name(fabric: Fabric) -> np.ndarray:
    return np.array(sorted(range(len(fabric.nodes)), key=lambda position: fabric.nodes[position]))


def summary(ledger: Ledger) -> dict[str, Any]:
    spans = np.array(ledger.spans, float).reshape(-1, 6)
    gangs = len(spans) > 0
    one_leaf = spans[spans[:, 1] == 1]

    def over(spanned: int, fewest: int) -> float | None:
        return float((spans[:, spanned] / spans[:, fewest]).mean()) if gangs else None

    return {
        "spans_over_minimum": {"leaf": over(0, 1), "aggregation": over(3, 4)},
        "spans_over_minimum_at_decision": {"leaf": over(0, 2), "aggregation": over(3, 5)},
        "share_in_one_leaf": float((one_leaf[:, 0] == 1).mean()) if len(one_leaf) else None,
        "mean_wait_s": fmean(ledger.waits),
        "p99_wait_s": float(np.percentile(ledger.waits, 99)),
        "gang_mean_wait_s": fmean(ledger.gang_waits) if ledger.gang_waits else None,
        "decision_us": 1e6 * ledger.seconds / ledger.decisions,
    }


def table(policies: dict[str, Any]) -> str:
    rows = [
        [
            name,
            one["spans_over_minimum"]["leaf"],
            one["spans_over_minimum"]["aggregation"],
            one["spans_over_minimum_at_decision"]["leaf"],
            one["spans_over_minimum_at_decision"]["aggregation"],
            one["share_in_one_leaf"],
            one["mean_wait_s"],
            one["p99_wait_s"],
            one["gang_mean_wait_s"],
            one["decision_us"],
        ]
        for name, one in policies.items()
    ]
    header = [
        "over the minimum",
        "leaf",
        "aggr.",
        "leaf, then",
        "aggr., then",
        "in one leaf",
        "wait s",
        "p99 s",
        "gangs' wait s",
        "us/decision",
    ]
    return aligned(header, rows)


def draw(file: Path, ledgers: dict[str, Ledger]) -> None:
    pyplot = plotting()
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, ledger in ledgers.items():
        ratios = np.sort([row[0] / row[1] for row in ledger.spans])
        axes.plot(ratios, np.arange(1, len(ratios) + 1) / max(1, len(ratios)), label=name)
    axes.set(
        xlabel="leaf groups spanned over the empty fabric's minimum", ylabel="share of gangs", title="Spans of gangs"
    )
    axes.legend()
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    guarded(main)
