"""`muster version`."""

import click

from cli.output import say
from muster.version import VERSION


@click.command()
@click.option("--client", is_flag=True, help="Do not ask the server.")
def version(client: bool) -> None:
    """Print the versions of client and server."""
    say(f"client  {VERSION}")
    if not client:
        from cli.api import connect

        answer = connect().get("/version")
        say(f"server  {answer['version']} (API {answer['apiVersion']}, agent protocol {answer['protocol']})")
