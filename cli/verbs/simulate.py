"""`muster simulate`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from cli.api import connect
from cli.errors import Exit, Failure
from cli.verbs.whatif import quota_of

LIVE = "live"


@click.command(
    epilog="""\b
Examples:
  muster simulate --trace jobs.csv --cluster cluster.yaml
  muster simulate --trace jobs.csv --cluster live --add-nodes 20 --like node-0
  muster simulate --trace jobs.jsonl --cluster cluster.yaml \\
      --quota research=h100:128 --json --plot out.png

\b
docs/scheduling.md describes the forms of both files."""
)
@click.option("--trace", required=True, metavar="FILE", help="Jobs: CSV, or JSON lines (.jsonl); may be gzipped.")
@click.option("--cluster", required=True, metavar="FILE|live", help="Node groups and queues (YAML), or this cluster.")
@click.option("--add-nodes", "add", type=click.IntRange(1), metavar="N", help="Beside it, with more nodes.")
@click.option("--like", metavar="NODE|GROUP", help="What the new nodes are like.")
@click.option("--drain", multiple=True, metavar="NODE", help="Beside it, without this node. Repeatable.")
@click.option("--quota", "quotas", multiple=True, metavar="QUEUE=KIND:N", help="Beside it, with this quota.")
@click.option("--on-error", type=click.Choice(("stop", "skip")), default="stop", help="What broken rows do.")
@click.option("--step", type=click.FloatRange(0), default=0.0, metavar="SECONDS", help="Plan at most so often.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@click.option("--plot", metavar="FILE.png", help="A picture of it (needs matplotlib: the extra `plots`).")
def simulate(
    trace: str,
    cluster: str,
    add: int | None,
    like: str | None,
    drain: tuple[str, ...],
    quotas: tuple[str, ...],
    on_error: str,
    step: float,
    as_json: bool,
    plot: str | None,
) -> None:
    """Run your own jobs on a cluster in thought, by the planner of production, for capacity planning.

    Tells waits, utilisation and makespan; with --add-nodes, --drain or --quota beside the cluster as it is.
    """
    if (add is None) != (like is None):
        raise Failure("--add-nodes and --like go together", code=Exit.USAGE)
    for name in (trace, *([] if cluster == LIVE else [cluster])):
        if not Path(name).is_file():
            raise Failure(f"{name}: there is no such file", code=Exit.ERROR)
    change = {"quota": quota_of(quotas), "addNodes": add, "like": like, "drain": list(drain)}
    question = {
        "trace": trace,
        "cluster": _live() if cluster == LIVE else cluster,
        "change": {name: value for name, value in change.items() if value} or None,
        "on_error": on_error,
        "step": step,
        "json": as_json,
        "plot": plot or "",
    }
    words = [sys.executable, "-P", "-m", "controller.simulate"]
    if subprocess.run(words, input=json.dumps(question).encode(), check=False).returncode:
        click.get_current_context().exit(Exit.ERROR)


def _live() -> dict[str, Any]:
    """What the cluster has; what runs and waits there is no part of it."""
    api = connect()
    return {"live": {"nodes": api.items("/nodes"), "queues": api.items("/queues")}}
