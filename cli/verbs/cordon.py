"""`muster cordon`, `muster uncordon`."""

import click

from cli.api import connect
from cli.names import NODE, targets
from cli.output import say


def _verb(name: str, about: str) -> click.Command:
    @click.command(name, help=about)
    @click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
    def verb(nodes: tuple[str, ...]) -> None:
        api = connect()
        words = nodes if nodes[0] in ("node", "nodes", "no") or "/" in nodes[0] else ("node", *nodes)
        for _, node in targets(words, (NODE,)):
            api.act("Node", node, name)
            say(f"node/{node} {name}ed")

    return verb


cordon = _verb("cordon", "Let nothing new start on nodes; what runs there goes on.")
uncordon = _verb("uncordon", "Take cordoned nodes back into use.")
