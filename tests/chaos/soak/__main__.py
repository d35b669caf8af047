"""`./run soak [--seed N] [--minutes M] [--database sqlite|postgresql]`: exit code 1 when a promise was not kept."""

import argparse
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.chaos.soak.cluster import Cluster
from tests.chaos.soak.soak import STEPS, Soak


def main() -> int:
    asked = argparse.ArgumentParser(prog="./run soak", description=__doc__)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--minutes", type=float, default=5.0, help="how long things break (5)")
    asked.add_argument("--steps", type=int, default=STEPS, help=f"tenths of a second that a job works ({STEPS})")
    asked.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    given = asked.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="muster-soak-"))
    url, restart, end = None, None, lambda: None
    if given.database == "postgresql":
        from tests.chaos.soak.postgres import Postgres

        server = Postgres(Path(tempfile.mkdtemp(prefix="muster-soak-postgres-")))
        url, restart, end = server.url, server.restart, server.close
    try:
        with Cluster(folder / "data", url) as cluster:
            soak = Soak(cluster, seed=given.seed, steps=given.steps, restart_database=restart, say=_say)
            report = soak.run(lambda _faults, seconds: seconds >= given.minutes * 60)
    finally:
        end()
    for name, value in asdict(report).items():
        _say(f"{name:<9} {value}")
    _say(f"{'faults':<9} {sum(report.faults.values())} in all")
    if report.problems:
        _say(f"everything is kept in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
