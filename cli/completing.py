"""What the shell may complete: kinds, and names of what the cluster has."""

import click

from cli.errors import Failure
from cli.names import ALL, JOB, NODE, QUEUE, Resource, resource

SECONDS = 2.0
"""Whoever presses a key does not wait longer for a cluster."""


def things(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """`KIND NAME...`."""
    given = list(ctx.params.get(param.name or "") or ())
    if not given:
        words = [one.word for one in ALL] + [one.plural for one in ALL]
        return sorted(word for word in words if word.startswith(incomplete))
    try:
        kind = resource(given[0])
    except Failure:
        return []
    return _names(kind if not kind.of_job else JOB, ctx, incomplete)


def jobs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del param
    return _names(JOB, ctx, incomplete)


def nodes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    del param
    return _names(NODE, ctx, incomplete)


def _names(kind: Resource, ctx: click.Context, incomplete: str) -> list[str]:
    from cli.api import connect, jobs_path
    from cli.options import default_namespace

    if kind not in (JOB, NODE, QUEUE):
        return []
    path = jobs_path(ctx.params.get("namespace") or default_namespace()) if kind is JOB else f"/{kind.plural}"
    try:
        found = connect(timeout=SECONDS).items(path)
    except Failure:
        return []
    return sorted({name for one in found if (name := str(one["metadata"]["name"])).startswith(incomplete)})
