"""`muster api-resources`, `muster completion`."""

import click

from cli.errors import Exit, Failure
from cli.names import ALL, DECLARED
from cli.output import Column, say, table


@click.command("api-resources")
def api_resources() -> None:
    """List the kinds of things, their short names, and what can be done with each."""
    columns = [
        Column("NAME", lambda one: one["plural"]),
        Column("SHORT", lambda one: one["short"]),
        Column("KIND", lambda one: one["kind"]),
        Column("NAMESPACED", lambda one: str(one["namespaced"]).lower()),
        Column("VERBS", lambda one: one["verbs"]),
    ]
    rows = [
        {
            "plural": one.plural,
            "short": one.short,
            "kind": one.kind,
            "namespaced": one.namespaced,
            "verbs": "get,describe,create,apply,edit,patch,delete" if one in DECLARED else "get",
        }
        for one in ALL
    ]
    say(table(columns, rows, width=None))


SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog="""\b
Examples:
  muster completion bash >> ~/.bashrc
  muster completion fish > ~/.config/fish/completions/muster.fish"""
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what lets your shell complete verbs, options, and names of jobs, nodes and queues."""
    from click.shell_completion import get_completion_class

    from cli.main import cli

    found = get_completion_class(shell)
    if found is None:
        raise Failure(f"{shell} is not known", code=Exit.USAGE)
    say(found(cli, {}, "muster", "_MUSTER_COMPLETE").source())
