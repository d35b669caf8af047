"""What an agent costs and how soon it tells, beside its limits: `./run bench agent [--json]`.

Measured on a real `muster up`, with one node more whose agent finds eight devices by stand-ins for their tools. Times
are medians unless said otherwise; every sample is in the JSON.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "story"))

import agent_workers
from agent_node import NAME, RealNode
from cluster import TICKS, Bench, Figure, table
from embedded import Cluster
from ranks import ranks_of
from tell import StoryFailed, until

RANKS = 16
XID = "NVRM: Xid (PCI:0000:{:02x}:00): 79, pid=1, name=python, GPU has fallen off the bus."

Part = Callable[[Cluster, RealNode, argparse.Namespace], Sequence[Figure]]


def inspect(_cluster: Cluster, node: RealNode, options: argparse.Namespace) -> list[Figure]:
    """`muster-agent inspect --json`, the whole process."""
    samples = []
    for _ in range(options.rounds):
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", "import sys; from agents.entry import main; sys.exit(main())", "inspect", "--json"],
            env=node.cluster.environment | {"PATH": node.path}, check=True, capture_output=True,
        )  # fmt: skip
        samples.append(time.perf_counter() - began)
        assert len(json.loads(done.stdout)["devices"]) == 8
    return [Figure("inspect of an 8-device node", statistics.median(samples), 1, "s", samples)]


def kernel_lines(cluster: Cluster, node: RealNode, options: argparse.Namespace) -> list[Figure]:
    """From the line's write until the API shows the condition: the slowest."""
    samples = []
    for number in range(min(options.rounds, 8)):
        began = time.time()
        with node.kernel_log.open("a") as file:
            file.write(
                f"3,{number},{int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6)},-;{XID.format(16 + number)}\n"
            )
        until(f"condition {number}", lambda number=number: number in _ill(cluster), every=0.01)  # type: ignore[misc]
        samples.append(time.time() - began)
    return [Figure("kernel line to condition, the slowest", max(samples), 2, "s", samples)]


def _ill(cluster: Cluster) -> set[int]:
    return {one["device"] for one in cluster.nodes()[NAME]["status"]["conditions"] if one["reason"] == "Xid79"}


def weight(cluster: Cluster, node: RealNode, options: argparse.Namespace) -> list[Figure]:
    """Memory and share of a core of the agent and of its helper that looks at the machine, with 8 devices and 16 ranks
    that print."""
    job = {
        "apiVersion": "muster.dev/v1",
        "kind": "Job",
        "metadata": {"name": "weight"},
        "spec": {
            "workers": 1,
            "ranksPerWorker": RANKS,
            "accelerators": [{"type": "h200", "count": 8}],
            "command": ["/bin/sh", "-c", "while :; do echo step; sleep 5; done"],
        },
    }
    bench = Bench(cluster, node.folder)
    bench.call("POST", "/namespaces/default/jobs", job)
    until("16 ranks", lambda: len(ranks_of(cluster.job("weight")["metadata"]["uid"])) >= RANKS)
    time.sleep(5)
    before, began = _cpu(node.pid), time.monotonic()
    time.sleep(options.seconds)
    share = (_cpu(node.pid) - before) / (time.monotonic() - began) * 100
    size = _peak_mb(node.pid)
    bench.end("weight")
    return [
        Figure("agent memory, 8 devices and 16 ranks", size, 80, "MB", [size]),
        Figure(f"agent CPU over {options.seconds:g} s, with its probes", share, 1, "% of a core", [share]),
    ]


def _parts(agent: int) -> list[int]:
    """The agent and the process that looks at the machine for it; shims are their ranks' own."""
    pids = [agent]
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, IndexError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == agent and b"agents.health" in (folder / "cmdline").read_bytes():
                    pids.append(int(folder.name))
    return pids


def _cpu(agent: int) -> float:
    """Seconds of the agent and its helper, and of all their children that have ended: tools."""
    seconds = 0.0
    for pid in _parts(agent):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        seconds += sum(int(fields[number]) for number in (11, 12, 13, 14)) / TICKS
    return seconds


def _peak_mb(agent: int) -> float:
    """Peak of both together, what they share counted twice."""
    size = 0.0
    for pid in _parts(agent):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        size += int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6
    return size


PARTS: tuple[Part, ...] = (inspect, weight, *agent_workers.PARTS, kernel_lines)
"""Each gives figures; kernel lines last, since they take the node's devices away."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run bench agent", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--part", action="append", metavar="NAME", help="only these: " + ", ".join(one.__name__ for one in PARTS)
    )
    parser.add_argument("--json", action="store_true", help="print JSON with every sample")
    parser.add_argument("--rounds", type=int, default=7, help="samples for each median")
    parser.add_argument("--seconds", type=float, default=30.0, help="for which the agent's CPU is watched")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    cluster = Cluster(folder)
    node: RealNode | None = None
    try:
        cluster.start()
        node = RealNode(cluster, folder)
        node.start()
        figures = [
            figure
            for part in PARTS
            if part.__name__ in (options.part or [part.__name__])
            for figure in part(cluster, node, options)
        ]
    except StoryFailed as failure:
        print(f"./run bench agent: {failure} (logs: {folder})", file=sys.stderr)
        return 1
    finally:
        if node is not None:
            node.stop()
        cluster.stop()
    shutil.rmtree(folder, ignore_errors=True)
    machine = (
        f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}, Python {platform.python_version()}"
    )
    if options.json:
        print(json.dumps({"machine": machine, "figures": [asdict(f) | {"good": f.good} for f in figures]}, indent=2))
    else:
        print(f"{table(figures)}\n\n{machine}; load {os.getloadavg()[0]:.1f} at the end")
    return 0 if all(figure.good for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
