"""`./run soak [--seed N] [--minutes M] [--database sqlite|postgresql]`: exit code 1 when a promise was not kept."""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.soak.cluster import Cluster
from tests.chaos.soak.soak import STEPS, Report, Soak


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
        with Cluster(folder / "data", url, seed=given.seed, machine=True) as cluster:
            soak = Soak(cluster, seed=given.seed, steps=given.steps, restart_database=restart, say=_say)
            report = soak.run(lambda _faults, seconds: seconds >= given.minutes * 60)
    finally:
        end()
    for line in table(report):
        _say(line)
    if report.problems:
        _say(f"everything is kept in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def table(report: Report) -> list[str]:
    """Faults by kind, what became of the jobs, and the problems that were found."""
    lines = [f"{'fault':<32} {'times':>6}"]
    lines += [f"{kind:<32} {count:>6}" for kind, count in report.faults.items()]
    lines += [f"message {kind:<24} {count:>6}" for kind, count in sorted(report.messages.items())]
    lines += [f"{'faults in all (but messages)':<32} {sum(report.faults.values()):>6}"]
    lines += [f"jobs {phase:<27} {count:>6}" for phase, count in sorted(report.jobs.items())]
    lines += [f"attempts {reason:<23} {count:>6}" for reason, count in sorted(report.attempts.items())]
    counts = {"held jobs resumed": report.resumed, "web hooks taken": report.webhooks}
    counts |= {"workers' lives": report.lives, "audits": report.audits, "problems": len(report.problems)}
    lines += [f"{name:<32} {count:>6}" for name, count in counts.items()]
    return [*lines, f"seed {report.seed}, {report.seconds:.0f} s", *report.problems]


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
