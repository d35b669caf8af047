"""How fast the control plane is, beside what its rows cost as plain INSERTs: `./run bench control`.

A PostgreSQL with fsync on (or SQLite), a Redis, one API process, a controller, and the load itself (clients, watchers,
agents: one process of lean clients), everything on this machine. Whatever else runs on it makes the figures worse; the
load is printed with them.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import control_agents, control_jobs, control_reads
from benchmarks.common import machine
from benchmarks.figures import Figure
from benchmarks.lab import Lab

Part = Callable[[Lab, argparse.Namespace], Coroutine[Any, Any, list[Figure]]]

PARTS: dict[str, Part] = {
    "submit": control_jobs.submit,
    "bulk": control_jobs.bulk,
    "pages": control_reads.pages,
    "watch": control_reads.watch,
    "starts": control_agents.starts,
    "exchange": control_agents.exchange,
    "fleet": control_agents.fleet,
}

SLURM = (
    "Slurm 22.05 on a machine like this one: 144 (4,096 nodes) to 270 (1,024 nodes) sbatch a second with 8 clients, "
    "126 to 285 starts a second"
)


def main() -> int:
    given = arguments()
    lab = Lab(given.database)
    before = os.getloadavg()[0]
    figures: list[Figure] = []
    if not given.json:
        print(f"{os.cpu_count()} cores, load {before:.1f} before the start; {given.database}", flush=True)
    try:
        for name, part in PARTS.items():
            if given.only and name not in given.only:
                continue
            for figure in run(part(lab, given)):
                figures.append(figure)
                if not given.json:
                    print(figure.line(), flush=True)
    finally:
        lab.close()
    report(given, figures, before)
    return 0


def run(work: Coroutine[Any, Any, list[Figure]]) -> list[Figure]:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def report(given: argparse.Namespace, figures: list[Figure], before: float) -> None:
    after = os.getloadavg()[0]
    if given.json:
        print(
            json.dumps(
                {
                    **machine(),
                    "cores": os.cpu_count(),
                    "database": given.database,
                    "load": {"before": before, "after": after},
                    "figures": [figure.wire() for figure in figures],
                    "slurm": SLURM,
                }
            )
        )
        return
    print(f"load {after:.1f} at the end; clients, agents, API, controller and database share these cores")
    print(SLURM)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run bench control", description=__doc__)
    add = parser.add_argument
    add("--database", choices=("postgresql", "sqlite"), default="postgresql")
    add("--only", action="append", choices=tuple(PARTS), metavar="PART", help=f"may be repeated: {', '.join(PARTS)}")
    add("--seconds", type=float, default=10.0, help="of each measurement of a rate (10)")
    add("--jobs", type=int, default=200_000, help="jobs out of which pages are read (200,000)")
    add("--watchers", type=int, default=1_000, help="watchers that wait for a change (1,000)")
    add("--starts", type=int, default=2_000, help="jobs that are started (2,000)")
    add("--agents", type=int, default=2_000, help="simulated agents of the fleet (2,000)")
    add("--fleet-minutes", type=float, default=1.0, help="how long the fleet is watched (1)")
    add("--json", action="store_true", help="one JSON object on standard output, and nothing else")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
