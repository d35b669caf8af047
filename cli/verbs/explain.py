"""`muster explain`."""

import click

from cli.errors import Exit, Failure
from cli.output import say


@click.command(
    epilog="""\b
Examples:
  muster explain job.spec
  muster explain job.spec.topology.segment
  muster explain queue.spec.quota"""
)
@click.argument("field", metavar="KIND[.FIELD...]")
def explain(field: str) -> None:
    """Tell what a field of a manifest means, what it may be, and when a change of it takes effect."""
    from muster.resources.explain import find

    try:
        found = find(field)
    except LookupError as error:
        raise Failure(str(error.args[0]), code=Exit.NOT_FOUND) from None
    path = field.partition(".")[2]
    inside = [one for one in found if one.path != path]
    for one in found:
        if one.path == path:
            say(f"{one.path}: {one.type}{', required' if one.required else ''}")
            for text in (one.about, f"One of {', '.join(one.allowed)}." if one.allowed else ""):
                if text:
                    say(f"  {text}")
            if one.default:
                say(f"  Default: {one.default}")
            if one.when:
                say(f"  Changes: {one.when}")
    if inside:
        say("")
        width = max(len(one.path.rpartition(".")[2]) for one in inside)
        for one in inside:
            mark = "*" if one.required else " "
            say(f"  {one.path.rpartition('.')[2]:<{width}}{mark} {one.type}: {one.about}")
