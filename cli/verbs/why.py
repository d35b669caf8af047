"""`muster why`."""

import click

from cli import describing, options
from cli.api import connect, jobs_path
from cli.names import JOB, targets
from cli.output import as_json, as_yaml, now, say, terminal_width


@click.command(epilog="Example:  muster why job llama-sft")
@click.argument("what", nargs=-1, required=True, metavar="[job] NAME...")
@options.namespace
@click.option("-o", "--output", "form", type=click.Choice(("text", "json", "yaml")), default="text", help="The form.")
def why(what: tuple[str, ...], namespace: str, form: str) -> None:
    """Tell why a job waits: the reason that binds, the others, the numbers, what would help, when it will start."""
    api = connect()
    words = what if "/" in what[0] or len(what) > 1 else (JOB.word, *what)
    found = [api.get(jobs_path(namespace, name, "why")) for _, name in targets(words, (JOB,))]
    if form == "text":
        width = max(60, min(terminal_width(), 120))
        say("\n\n".join(describing.why(one, width=width, now=now()) for one in found))
    else:
        whole = found[0] if len(found) == 1 else {"apiVersion": "muster.dev/v1", "kind": "WhyList", "items": found}
        say(as_json(whole) if form == "json" else as_yaml(whole))
