"""Failures and repair of a job on 4,096 servers, 256 days of work: `./run bench failures --data DIR [--json]`.

`airesim` is the reference simulator's set-up, reproduced: its mean training time and ratio of effective training are published
with a confidence interval. `muster` is the same fleet with servers that failed again and again kept out of the job. The closed form beside them says what an
optimal checkpoint interval can give at all.
"""

from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from benchmarks.common import Progress, aligned, chosen, folder, guarded, machine, parser, plotting, say, table_of
from benchmarks.fleet import Care, FirstCome, Fleet, Lemons, Outcome, simulate

SOURCE = "github.com/karthikp-ubc/airesim (parameters and results, as faults/airesim_reference.csv)"
INTERVAL = (9820.37, 9844.28)
POLICIES: dict[str, type[Care]] = {"airesim": FirstCome, "muster": Lemons}
RSC_RATE = 6.50 / 1000  # failures a node-day
NODES = (128, 512, 1024, 2048)


def main() -> None:
    arguments = parser("failures", __doc__.splitlines()[0], SOURCE)
    arguments.add_argument(
        "--runs", type=int, default=30, metavar="N", help="replications, seeds 42, 43, ... (default 30)"
    )
    options = arguments.parse_args()
    data = folder(options.data, "faults", "airesim_reference.csv", SOURCE)
    fleet = read(data / "airesim_reference.csv")
    names = chosen(options.policy, POLICIES)
    progress = Progress("failures", len(names) * options.runs)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in names}
    for name in names:
        for seed in range(42, 42 + options.runs):
            outcomes[name].append(simulate(fleet, POLICIES[name](), seed))
            progress.step(name)
    policies = {name: summary(runs) for name, runs in outcomes.items()}
    report = {
        "benchmark": "failures",
        "setup": {field: getattr(fleet, field) for field in fleet.__dataclass_fields__},
        "input": {"data": str(data), "runs": options.runs},
        "machine": machine(),
        "policies": policies,
        "published": {
            "training_hours": 9832.32,
            "interval_hours": list(INTERVAL),
            "ratio": 0.6249,
            "failures": 11062.0,
        },
        "closed_form": {str(nodes * 8): best_ratio(nodes) for nodes in NODES},
    }
    say(report, table(policies), options.json)
    if options.plot:
        draw(options.plot, outcomes)


def read(path: Path) -> Fleet:
    """The parameters as published."""
    rows = {row["parameter_or_result"]: float(row["value"]) for row in table_of(path, ("parameter_or_result", "value"))}
    return Fleet(
        job_size=int(rows["job_size"]),
        standbys=int(rows["warm_standbys"]),
        working=int(rows["working_pool_size"]),
        spares=int(rows["spare_pool_size"]),
        job_minutes=rows["job_length"],
        rate=rows["random_failure_rate"],
        bad_factor=rows["systematic_failure_rate_multiplier"],
        bad_share=rows["systematic_failure_fraction"],
        recovery=rows["recovery_time"],
        selection=rows["host_selection_time"],
        preemption=rows["preemption_wait_time"],
        auto_repair=rows["auto_repair_time"],
        manual_repair=rows["manual_repair_time"],
        auto_fails=rows["auto_repair_fail_prob"],
        escalates=rows["prob_auto_to_manual"],
        manual_fails=rows["manual_repair_fail_prob"],
    )


def summary(runs: list[Outcome]) -> dict[str, Any]:
    hours = [run.hours for run in runs]
    half = 1.96 * stdev(hours) / sqrt(len(hours)) if len(hours) > 1 else 0.0
    return {
        "training_hours": fmean(hours),
        "interval_hours": [fmean(hours) - half, fmean(hours) + half],
        "inside_published": INTERVAL[0] <= fmean(hours) <= INTERVAL[1],
        "ratio": fmean(run.ratio for run in runs),
        "failures": fmean(run.failures for run in runs),
        "systematic_failures": fmean(run.systematic for run in runs),
        "host_selections": fmean(run.selections for run in runs),
        "manual_repairs": fmean(run.manual for run in runs),
    }


def best_ratio(nodes: int, save: float = 5.0, restart: float = 5.0) -> float:
    """Effective training at the best checkpoint interval; saves and restarts cost minutes."""
    rate = nodes * RSC_RATE / 1440
    interval = sqrt(2 * save / rate)
    return (1 - rate * (restart + interval / 2)) / (1 + save / interval)


def table(policies: dict[str, Any]) -> str:
    keys = ("training_hours", "ratio", "failures", "systematic_failures", "host_selections", "manual_repairs")
    rows = [[name, *(one[key] for key in keys)] for name, one in policies.items()]
    rows.insert(0, ["airesim, published", 9832.32, 0.6249, 11062.0, 606.8, 19.8, 3538.6])
    closed = "  ".join(f"{nodes * 8:,} GPUs {best_ratio(nodes):.3f}" for nodes in NODES)
    footer = f"published interval {INTERVAL[0]} to {INTERVAL[1]} h; closed form, saves and restarts of 5 min: {closed}"
    return aligned(["policy", *(key.replace("_", " ") for key in keys)], rows) + "\n" + footer


def draw(file: Path, outcomes: dict[str, list[Outcome]]) -> None:
    pyplot = plotting()
    figure, axes = pyplot.subplots(figsize=(8, 5))
    axes.boxplot([[run.hours for run in runs] for runs in outcomes.values()], tick_labels=list(outcomes))
    axes.axhspan(*INTERVAL, alpha=0.3, label="published interval of the mean")
    axes.set(ylabel="hours for 6,144 hours of work", title="Failures and repair")
    axes.legend()
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    guarded(main)
