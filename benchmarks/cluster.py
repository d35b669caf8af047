"""How fast an embedded cluster is, beside its limits: `./run bench [--json]`.

Measured on a real `muster up` with 4 agents, from outside: over REST, with the command line, by the clock of the
ranks themselves and by /proc. Times are medians unless said otherwise.
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
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "story"))

from embedded import Cluster, command
from ranks import ranks_of
from tell import StoryFailed, until

TICKS = os.sysconf("SC_CLK_TCK")
PROGRAM = 'date +%s.%N > "$SPAWNED/$MUSTER_EPOCH-$RANK.new" && mv "$SPAWNED/$MUSTER_EPOCH-$RANK.new" "$SPAWNED/$MUSTER_EPOCH-$RANK"; exec sleep 3600'
RANKS = 4


@dataclass(frozen=True)
class Figure:
    """One measured number beside the most that it may be. `samples` are what the number was made from."""

    name: str
    value: float
    limit: float
    unit: str
    samples: list[float]

    @property
    def good(self) -> bool:
        return self.value < self.limit


class Bench:
    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder, self.count = cluster, folder, 0

    def gang(self) -> tuple[str, Path, float]:
        """Submit a gang of 2 workers x 2 ranks; its name, the folder where ranks note their start, and when."""
        self.count += 1
        name = f"bench-{self.count}"
        spawned = self.folder / name
        spawned.mkdir()
        spec = {
            "workers": 2,
            "ranksPerWorker": 2,
            "accelerators": [{"type": "h100", "count": 2}],
            "topology": {"required": "leaf"},
            "command": ["/bin/sh", "-c", PROGRAM],
            "env": {"SPAWNED": str(spawned)},
            "recovery": {"killGrace": "1s"},
        }
        job = {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        began = time.time()
        self.call("POST", "/namespaces/default/jobs", job)
        return name, spawned, began

    def call(self, method: str, path: str, body: Any = None) -> None:
        token = (self.cluster.data / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.cluster.url}/api/v1{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()

    def end(self, name: str) -> None:
        """Cancel, and wait until the devices are free again."""
        self.call("DELETE", f"/namespaces/default/jobs/{name}")
        until(f"{name} to end", lambda: self.cluster.job(name)["status"]["phase"] == "Cancelled", every=0.05)
        uid = self.cluster.job(name)["metadata"]["uid"]
        until("its ranks to end", lambda: not ranks_of(uid), every=0.05)

    def submit_to_spawned(self, rounds: int) -> list[float]:
        samples = []
        for _ in range(rounds):
            name, spawned, began = self.gang()
            samples.append((_all_spawned(spawned, 1) - began) * 1000)
            self.end(name)
            time.sleep(0.5)
        return samples

    def death_to_respawned(self, rounds: int) -> list[float]:
        samples = []
        for _ in range(rounds):
            name, spawned, _ = self.gang()
            _all_spawned(spawned, 1)
            uid = self.cluster.job(name)["metadata"]["uid"]
            until(f"{name} to run", lambda name=name: self.cluster.job(name)["status"]["phase"] == "Running")  # type: ignore[misc]
            time.sleep(1)
            victim = until("its ranks", lambda uid=uid: ranks_of(uid))[0]  # type: ignore[misc]
            killed = time.time()
            os.kill(victim.pid, signal.SIGKILL)
            samples.append(_all_spawned(spawned, 2) - killed)
            self.end(name)
        return samples

    def get_jobs(self, rounds: int) -> list[float]:
        samples = []
        for _ in range(rounds):
            began = time.perf_counter()
            subprocess.run(
                [*command(), "get", "jobs"], env=self.cluster.environment, check=True, stdout=subprocess.DEVNULL
            )
            samples.append((time.perf_counter() - began) * 1000)
        return samples

    def idle(self, seconds: float) -> tuple[dict[str, float], dict[str, float]]:
        """Share of a core in percent over `seconds`, and resident memory in MB at their end, by process name."""
        names = ["controller", *(f"agent-node-{n}" for n in range(4))]
        pids = {name: self.cluster.pid(name) or 0 for name in names}
        before, began = {name: _cpu_seconds(pid) for name, pid in pids.items()}, time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - began
        share = {name: (_cpu_seconds(pid) - before[name]) / passed * 100 for name, pid in pids.items()}
        return share, {name: _resident_mb(pid) for name, pid in pids.items()}


def _all_spawned(folder: Path, epoch: int) -> float:
    """When the last rank of this epoch noted its start, in UTC seconds."""
    files = [folder / f"{epoch}-{rank}" for rank in range(RANKS)]
    until(f"ranks of epoch {epoch}", lambda: all(file.exists() for file in files), every=0.01)
    return max(float(file.read_text()) for file in files)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _resident_mb(pid: int) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024 / 1e6


def measure(cluster: Cluster, folder: Path, rounds: int, idle_seconds: float) -> list[Figure]:
    began = time.monotonic()
    cluster.start()
    ready = time.monotonic() - began
    bench = Bench(cluster, folder)
    bench.end(bench.gang()[0])  # the first of everything is not counted
    time.sleep(3)
    share, memory = bench.idle(idle_seconds)
    spawn, again = bench.submit_to_spawned(rounds), bench.death_to_respawned(rounds)
    get = bench.get_jobs(rounds)
    agents = [name for name in share if name.startswith("agent")]
    cpu, size = [share[name] for name in agents], [memory[name] for name in agents]
    return [
        Figure("submit to ranks spawned", statistics.median(spawn), 300, "ms", spawn),
        Figure("rank death to new ranks spawned", statistics.median(again), 2, "s", again),
        Figure("muster get jobs, whole process", statistics.median(get), 250, "ms", get),
        Figure("agent memory, the largest", max(size), 80, "MB", size),
        Figure("agent when idle, the busiest", max(cpu), 1, "% of a core", cpu),
        Figure("controller when idle", share["controller"], 1, "% of a core", [share["controller"]]),
        Figure("muster up to four Ready nodes", ready, 6, "s", [ready]),
    ]


def table(figures: list[Figure]) -> str:
    rows = [("figure", "measured", "limit", "share of limit", "")]
    rows += [
        (
            f.name,
            f"{f.value:.3g} {f.unit}",
            f"{f.limit:g} {f.unit}",
            f"{f.value / f.limit:.0%}",
            "" if f.good else "over",
        )
        for f in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON with every sample")
    parser.add_argument("--rounds", type=int, default=11, help="samples for each median")
    parser.add_argument("--idle-seconds", type=float, default=20.0)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    cluster = Cluster(folder)
    try:
        figures = measure(cluster, folder, options.rounds, options.idle_seconds)
    except StoryFailed as failure:
        print(f"./run bench: {failure} (logs: {folder})", file=sys.stderr)
        return 1
    finally:
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
