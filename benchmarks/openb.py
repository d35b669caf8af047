"""Packing and fragmentation on a real GPU cluster: the openb set-up (FGD, ATC'23), `./run bench openb --data DIR [--json]`.

1,213 nodes with 6,212 GPUs; pods arrive in random order until they ask for 130 % of the GPUs; each is placed on one node or
dropped. The metric is the share of the GPUs that is not allocated when so many percent have been asked for, mean over seeds.
`muster` learns the shapes of requests as they come; `fgd` is given the whole workload's in advance, as its authors do.
"""

import time
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.common import (
    BadInput,
    Progress,
    aligned,
    chosen,
    folder,
    guarded,
    machine,
    parser,
    plotting,
    say,
    table_of,
)
from benchmarks.packing import Nodes, Pod, arrivals, read_nodes, read_pods, simulate
from benchmarks.packing_policies import POLICIES

SOURCE = "github.com/alibaba/clusterdata, cluster-trace-gpu-v2023"
FIRST_SEED, LOAD = 42, 1.3
COLUMNS = {"random": "01-Random", "bestfit": "05-BestFit", "fgd": "06-FGD"}
Row = tuple[str, int, int, int, str]


def main() -> None:
    arguments = parser("openb", __doc__.splitlines()[0], SOURCE)
    arguments.add_argument(
        "--workload", default="default", metavar="NAME", help="openb_pod_list_NAME.csv of DIR, or a CSV file"
    )
    arguments.add_argument("--nodes", type=Path, metavar="FILE", help="another list of nodes of the same form")
    arguments.add_argument("--seeds", type=int, default=10, metavar="N", help="seeds 42, 43, ... (default 10)")
    arguments.add_argument(
        "--change",
        action="append",
        default=[],
        metavar="CHANGE",
        help="another cluster: cpu=0.8, only=KIND, without=KIND; or departures",
    )
    options = arguments.parse_args()
    if options.seeds < 1:
        raise BadInput(f"--seeds is {options.seeds}; wanted at least 1")
    data = folder(options.data, "openb", "openb_node_list_gpu_node.csv", SOURCE)
    departures = "departures" in options.change
    rows = changed(read_nodes(options.nodes or data / "openb_node_list_gpu_node.csv"), options.change)
    file = find(data, options.workload)
    pods = read_pods(file, departures)
    names = chosen(options.policy, POLICIES)
    spacing = None if departures is False else spread(file, len(pods))
    progress = Progress("openb", len(names) * options.seeds)
    policies = {}
    for name in names:
        runs = []
        for seed in range(FIRST_SEED, FIRST_SEED + options.seeds):
            runs.append(run(name, rows, pods, seed, spacing))
            progress.step(name)
        policies[name] = mean(runs)
    published = read_published(data / "published.csv", file.stem) if not options.change and not options.nodes else {}
    report = {
        "benchmark": "openb",
        "setup": {"load": LOAD, "seeds": [FIRST_SEED, FIRST_SEED + options.seeds - 1], "changes": options.change},
        "input": {
            "data": str(data),
            "workload": str(file),
            "pods": len(pods),
            "nodes": len(rows),
            "gpus": sum(row[3] for row in rows),
        },
        "machine": machine(),
        "policies": policies,
        "published": published,
    }
    say(report, table(policies, published, departures), options.json)
    if options.plot:
        draw(options.plot, policies, published)


def find(data: Path, name: str) -> Path:
    for path in (data / f"openb_pod_list_{name}.csv", data / f"{name}.csv", Path(name)):
        if path.is_file():
            return path
    raise BadInput(f"no workload {name!r}: neither {data}/openb_pod_list_{name}.csv nor {name} is a file")


def changed(rows: list[Row], changes: list[str]) -> list[Row]:
    """The cluster with more or less CPU, with one kind of nodes only, or without one."""
    for change in changes:
        key, _, value = change.partition("=")
        kinds = {row[4] for row in rows}
        if key == "cpu":
            try:
                factor = float(value)
            except ValueError:
                factor = 0.0
            if not 0 < factor < 1000:
                raise BadInput(f"--change {change}: wanted a factor above 0")
            rows = [(name, round(cpu * factor), memory, gpu, kind) for name, cpu, memory, gpu, kind in rows]
        elif key in ("only", "without"):
            if value not in kinds:
                raise BadInput(f"--change {change}: no such kind; the nodes are {', '.join(sorted(kinds))}")
            rows = [row for row in rows if (row[4] == value) is (key == "only")]
        elif change != "departures":
            raise BadInput(f"--change {change}: wanted cpu=FACTOR, only=KIND, without=KIND or departures")
    if not any(row[3] for row in rows):
        raise BadInput("no GPU is left in the changed cluster")
    return rows


def spread(file: Path, pods: int) -> float:
    """Seconds between arrivals with which the shuffled pods come in the trace's own time."""
    created = [float(row["creation_time"]) for row in table_of(file, ("creation_time",))]
    return (max(created) - min(created)) / pods


def run(name: str, rows: list[Row], pods: list[Pod], seed: int, spacing: float | None) -> dict[str, Any]:
    nodes = Nodes(rows)
    order = arrivals(pods, LOAD * nodes.capacity, seed)
    began = time.perf_counter()
    result: dict[str, Any] = dict(simulate(nodes, POLICIES[name](nodes, pods, seed), order, spacing))
    result["decision_us"] = 1e6 * (time.perf_counter() - began) / len(order)
    return result


def mean(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the seeds, and the extremes at 100 %."""
    found: dict[str, Any] = {
        key: {point: fmean(one[key][point] for one in runs) for point in runs[0][key]}
        for key in ("unallocated_percent", "dropped_percent")
    }
    at_full = [one["unallocated_percent"]["100"] for one in runs]
    return {
        **found,
        "spread_at_100": [min(at_full), max(at_full)],
        "decision_us": fmean(one["decision_us"] for one in runs),
    }


def read_published(file: Path, workload: str) -> dict[str, dict[str, float]]:
    """What was published for this workload, by policy and percent that have arrived."""
    found: dict[str, dict[str, float]] = {}
    if file.is_file():
        columns = ("workload", "policy", "arrived_pct_of_gpu_capacity", "unalloc_gpu_pct_mean")
        for row in table_of(file, columns):
            for name, label in COLUMNS.items():
                if row["workload"] == workload and row["policy"] == label:
                    found.setdefault(name, {})[row[columns[2]]] = float(row[columns[3]])
    return found


def table(policies: dict[str, Any], published: dict[str, dict[str, float]], departures: bool) -> str:
    points = list(next(iter(policies.values()))["unallocated_percent"])
    rows = []
    for name, one in policies.items():
        rows.append([name, *(one["unallocated_percent"][point] for point in points), one["decision_us"]])
        if name in published:
            rows.append([f"{name}, published", *(published[name].get(point) for point in points), None])
        if departures:
            rows.append([f"{name}, dropped %", *(one["dropped_percent"][point] for point in points), None])
    return aligned(["unallocated % at", *(f"{point} %" for point in points), "us/decision"], rows)


def draw(file: Path, policies: dict[str, Any], published: dict[str, dict[str, float]]) -> None:
    pyplot = plotting()
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, one in policies.items():
        line = one["unallocated_percent"]
        axes.plot([int(point) for point in line], list(line.values()), marker="o", label=name)
        if name in published:
            theirs = {int(point): value for point, value in published[name].items()}
            axes.plot(
                sorted(theirs), [theirs[point] for point in sorted(theirs)], linestyle=":", label=f"{name}, published"
            )
    axes.set(xlabel="% of the GPUs that have been asked for", ylabel="% of the GPUs not allocated", title="Packing")
    axes.legend()
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    guarded(main)
