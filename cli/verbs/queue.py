"""`muster queue`: the queues as a tree, and who waits in them."""

from typing import Any

import click

from cli import options
from cli.api import connect
from cli.columns import columns_of
from cli.errors import Exit, Failure, suggestion
from cli.output import Column, colours, now, say, table, terminal_width

Object = dict[str, Any]


@click.command(epilog="Examples:\n  muster queue\n  muster queue research")
@click.argument("name", required=False)
@options.namespace
def queue(name: str | None, namespace: str) -> None:
    """Show the tree of queues with their use, or one queue's waiting jobs in the order in which they are served."""
    del namespace
    api = connect()
    every = api.items("/queues")
    names = [one["metadata"]["name"] for one in every]
    if name is not None and name not in names:
        raise Failure(f"there is no queue {name}", code=Exit.NOT_FOUND, hint=suggestion(name, names))
    if name is None:
        return say(table(_columns(), _tree(every), width=terminal_width(), colour=colours()))
    inside = _inside(name, every)
    found = [
        one for one in api.items("/jobs", fieldSelector="status.phase=Queued") if one["spec"].get("queue") in inside
    ]
    if not found:
        click.echo(f"nobody waits in queue {name}", err=True)
        return None
    found.sort(key=lambda one: (one["status"].get("eta") or {}).get("at") or "9")
    wanted = ("NAME", "REASON", "ETA", "AGE", "MESSAGE", "WORKERS", "DEVICES")
    columns = [one for one in columns_of("Job", now()) if one.title in wanted]
    return say(table(columns, found, width=terminal_width(), colour=colours()))


def _inside(name: str, every: list[Object]) -> set[str]:
    """The queue and all below it."""
    found = {name}
    while more := {one["metadata"]["name"] for one in every if one["spec"].get("parent") in found} - found:
        found |= more
    return found


def _tree(every: list[Object], parent: str | None = None, depth: int = 0) -> list[Object]:
    known = {one["metadata"]["name"] for one in every}
    rows = []
    for one in sorted(every, key=lambda one: str(one["metadata"]["name"])):
        above = one["spec"].get("parent")
        if (above if above in known else None) == parent:
            rows.append(one | {"_depth": depth})
            rows += _tree(every, one["metadata"]["name"], depth + 1)
    return rows


def _columns() -> list[Column]:
    return [
        Column("QUEUE", lambda one: "  " * one["_depth"] + one["metadata"]["name"]),
        *[one for one in columns_of("Queue", now()) if one.title not in ("NAME", "PARENT") and not one.wide],
    ]
