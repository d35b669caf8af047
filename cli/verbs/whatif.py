"""`muster whatif`."""

from typing import Any

import click

from cli import options, planning
from cli.api import connect
from cli.errors import Exit, Failure
from cli.manifests import load
from cli.output import as_json, as_yaml, now, say, terminal_width

Object = dict[str, Any]
THINKING = 150.0
"""Seconds that the planner may think."""


@click.command(
    epilog="""\b
Examples:
  muster whatif -f job.yaml
  muster whatif --quota research=h100:64 --add-nodes 4 --like node-0
  muster whatif --drain node-3
  muster whatif --gangs"""
)
@click.option("-f", "--filename", "file", metavar="FILE|-", help="A job, new or changed.")
@click.option(
    "--quota", "quotas", multiple=True, metavar="QUEUE=KIND:N", help="What a queue has of a kind. Repeatable."
)
@click.option("--add-nodes", "add", type=click.IntRange(1), metavar="N", help="More nodes, each like --like.")
@click.option("--like", metavar="NODE", help="The node that the new ones are like: devices, labels, size.")
@click.option("--drain", multiple=True, metavar="NODE", help="A node that is emptied. Repeatable.")
@click.option("--gangs", is_flag=True, help="Which gangs could start now, by kind and level of the fabric.")
@options.namespace
@click.option("-o", "--output", "form", type=click.Choice(("text", "json", "yaml")), default="text", help="The form.")
def whatif(
    file: str | None,
    quotas: tuple[str, ...],
    add: int | None,
    like: str | None,
    drain: tuple[str, ...],
    gangs: bool,
    namespace: str,
    form: str,
) -> None:
    """Ask what would start, and when the rest would, if something were different. Nothing is touched."""
    question = _question(file, quotas, add, like, drain)
    if gangs == bool(question):
        hint = "one of -f, --quota, --add-nodes with --like, --drain; or --gangs alone"
        raise Failure("nothing to ask" if not gangs else "--gangs goes alone", code=Exit.USAGE, hint=hint)
    api = connect(THINKING)
    if gangs:
        found = api.get("/capacity")
        text = planning.gangs(found, width=terminal_width())
    else:
        found = api.post("/whatif", {**question, "namespace": namespace})
        text = planning.whatif(found, width=max(60, min(terminal_width(), 120)), now=now())
    say({"json": as_json, "yaml": as_yaml}[form](found) if form != "text" else text)


def _question(
    file: str | None, quotas: tuple[str, ...], add: int | None, like: str | None, drain: tuple[str, ...]
) -> Object:
    """Only what was named. Raises Failure."""
    if (add is None) != (like is None):
        raise Failure("--add-nodes and --like go together", code=Exit.USAGE)
    asked: Object = {"quota": quota_of(quotas), "addNodes": add, "like": like, "drain": list(drain)}
    if file:
        manifests = load((file,))
        if len(manifests) != 1 or manifests[0].kind != "Job":
            raise Failure(f"{file}: expected one Job, found {len(manifests)} manifests", code=Exit.REFUSED)
        asked["job"] = manifests[0].document
    return {name: value for name, value in asked.items() if value}


def quota_of(words: tuple[str, ...]) -> dict[str, dict[str, int]]:
    """`research=h100:64` as {research: {h100: 64}}. Raises Failure."""
    found: dict[str, dict[str, int]] = {}
    for word in words:
        queue, equals, rest = word.partition("=")
        kind, colon, amount = rest.partition(":")
        if not (queue and equals and kind and colon and amount.isdecimal()):
            raise Failure(f"--quota {word}: expected QUEUE=KIND:N, e.g. research=h100:64", code=Exit.USAGE)
        found.setdefault(queue, {})[kind] = int(amount)
    return found
