"""What workers cost and how they end, for `./run bench agent`: shims, loud logs, many descendants, a killed rank."""

import argparse
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from agent_node import NAME, RealNode
from cluster import Bench, Figure
from embedded import Cluster
from ranks import ranks_of
from tell import until

LOUD = 400
"""Megabytes that one rank prints, at 100 MB/s."""
KEPT = 256 * 2**20
"""Bytes of a stream's beginning that are kept (and 64 KiB of its end)."""
PRINT = f"""
import os, sys, time
block = (b"%063d\\n" % 7) * (2**20 // 64)
began = time.monotonic()
for number in range({LOUD}):
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
    time.sleep(max(0.0, began + (number + 1) / 95.4 - time.monotonic()))
os.write(1, b"the end\\n")
open(os.environ["DONE"], "w").write(str(time.monotonic() - began))
"""
TICK = 'while :; do echo "tick $(date +%s.%N)"; sleep 0.1; done'
AWAY = "(setsid sh -c 'trap \"\" TERM HUP; sleep 4322.25 & wait' >/dev/null 2>&1 &)"
MANY = f"i=0; while [ $i -lt 500 ]; do {AWAY}; i=$((i+1)); done; echo up; exec sleep 4323"


def shim(cluster: Cluster, node: RealNode, options: argparse.Namespace) -> list[Figure]:
    """Peak of a shim with 16 ranks, over the start."""
    with_ranks = Job(cluster, node, "shim", "exec sleep 3600", ranksPerWorker=16, cpu="100m", memory="1Mi")
    with_ranks.runs(16)
    time.sleep(2)
    sizes = [_status(pid, "VmHWM") / 1e6 for pid in _shims(node.pid)]
    with_ranks.end()
    return [Figure("a shim with 16 ranks, peak", max(sizes), 12, "MB", sizes)]


def loud(cluster: Cluster, node: RealNode, options: argparse.Namespace) -> list[Figure]:
    """One rank prints 100 MB/s for four seconds, another a line each 0.1 s. Was the first made to wait, how late does a
    line of the second reach the log store, and how much is lost of what is kept?"""
    done = node.folder / "loud.done"
    quiet = Job(cluster, node, "quiet", TICK)
    quiet.runs(1)
    noisy = Job(cluster, node, "loud", "", command=["python3", "-c", PRINT], env={"DONE": str(done)}, checkpoint=None)
    late, path = [], quiet.log()
    while not done.exists():
        late.append(_lateness(path))
        time.sleep(0.05)
    until("the loud rank's end", lambda: noisy.phase() == "Succeeded", every=0.05)
    took, log = float(done.read_text()), noisy.log()
    until("its last words", lambda: log.read_bytes()[-8:] == b"the end\n", every=0.1, patience=120)
    lost = KEPT - _equal(log, (b"%063d\n" % 7) * (2**20 // 64))
    quiet.end()
    seen = [one for one in late if one is not None]
    return [
        Figure(f"{LOUD} MB of log at 100 MB/s: more than it takes alone", took - LOUD / 95.4, 0.5, "s", [took]),
        Figure("of the kept 256 MiB lost", max(0, lost), 1, "bytes", [lost]),
        Figure("a quiet rank's line reaches the store, the latest", max(seen), 2, "s", seen),
    ]


def many(cluster: Cluster, node: RealNode, options: argparse.Namespace) -> list[Figure]:
    """From the rank's death until none of 1,000 descendants is left, all in sessions of their own, deaf to SIGTERM."""
    samples, left = [], []
    for number in range(min(3, options.rounds)):
        job = Job(cluster, node, f"many-{number}", MANY, recovery={"maxRestarts": 0})
        job.runs(1)
        until("1,000 descendants", lambda: len(_with(b"4322.25")) >= 1000, every=0.05, patience=120)
        began = time.monotonic()
        os.kill(_with(b"4323")[0], signal.SIGKILL)
        while _with(b"4322.25"):
            time.sleep(0.002)
        samples.append(time.monotonic() - began)
        until("its end", lambda job=job: job.phase() == "Failed", every=0.05)  # type: ignore[misc]
        left.append(float(len(_with(b"4322.25"))))
    return [
        Figure("1,000 descendants of a worker dead, the slowest", max(samples), 2, "s", samples),
        Figure("of them left when its end is known", max(left), 1, "processes", left),
    ]


def killed(cluster: Cluster, node: RealNode, options: argparse.Namespace) -> list[Figure]:
    """From SIGKILL of a rank to the controller's own note of it."""
    samples = []
    for number in range(options.rounds):
        job = Job(cluster, node, f"killed-{number}", "exec sleep 3600", recovery={"maxRestarts": 0})
        job.runs(1)
        time.sleep(0.5)
        pid, at = ranks_of(job.uid)[0].pid, time.time()
        os.kill(pid, signal.SIGKILL)
        until("its end", lambda job=job: job.phase() == "Failed", every=0.02)  # type: ignore[misc]
        detected = cluster.attempts(job.name)[-1]["timeline"]["detectedAt"]
        samples.append((datetime.fromisoformat(detected.replace("Z", "+00:00")).timestamp() - at) * 1000)
    return [Figure("SIGKILL of a rank known to the controller, the slowest", max(samples), 500, "ms", samples)]


class Job:
    """One worker on the measured node."""

    def __init__(self, cluster: Cluster, node: RealNode, name: str, script: str, **spec: object) -> None:
        self.cluster, self.name, self.bench = cluster, name, Bench(cluster, node.folder)
        body = {"command": ["/bin/sh", "-c", script], "nodes": {"include": [NAME]}, **spec}
        given = {key: value for key, value in body.items() if value is not None}
        manifest = {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": name}, "spec": given}
        self.bench.call("POST", "/namespaces/default/jobs", manifest)
        self.uid = cluster.job(name)["metadata"]["uid"]

    def phase(self) -> str:
        return str(self.cluster.job(self.name)["status"]["phase"])

    def runs(self, ranks: int) -> None:
        until(f"{self.name} to run", lambda: self.phase() == "Running", every=0.02)
        until(f"ranks of {self.name}", lambda: len(ranks_of(self.uid)) >= ranks, every=0.02)

    def log(self) -> Path:
        attempt = until("an attempt", lambda: self.cluster.attempts(self.name))[0]["uid"]
        return self.cluster.data / "logs/default" / self.uid / attempt / "worker-0/rank-0.log"

    def end(self) -> None:
        self.bench.end(self.name)


def _with(word: bytes) -> list[int]:
    """Pids that have this word, or a shell's script with it, on their command line, zombies aside."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                line = Path(f"/proc/{name}/cmdline").read_bytes()
                if word in line and b"while [" not in line:
                    found.append(int(name))
    return found


def _shims(agent: int) -> list[int]:
    """Below this agent."""
    found = []
    for pid in _with(b"agents/shim.py"):
        with suppress(OSError, IndexError):
            if int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) == agent:
                found.append(pid)
    return found


def _status(pid: int, name: str) -> int:
    """Bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


def _lateness(path: Path) -> float | None:
    """Seconds since the last line that has arrived was written."""
    with suppress(OSError, IndexError, ValueError):
        return time.time() - float(path.read_text().splitlines()[-2].split()[1])
    return None


def _equal(path: Path, block: bytes) -> int:
    """Bytes at the beginning that are as they were printed."""
    same = 0
    with path.open("rb") as file:
        while same < KEPT and file.read(len(block)) == block:
            same += len(block)
    return same


PARTS: tuple[Callable[[Cluster, RealNode, argparse.Namespace], Sequence[Figure]], ...] = (shim, loud, many, killed)
