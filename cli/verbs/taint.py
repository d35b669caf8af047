"""`muster taint`."""

import click

from cli.api import connect, path_to
from cli.errors import Exit, Failure
from cli.output import say


@click.command(
    epilog="""\b
Examples:
  muster taint node-3 dedicated=ml
  muster taint node-3 dedicated-"""
)
@click.argument("node")
@click.argument("taints", nargs=-1, required=True, metavar="KEY[=VALUE]|KEY-...")
def taint(node: str, taints: tuple[str, ...]) -> None:
    """Keep jobs that do not tolerate it from starting on a node; KEY- takes a taint away."""
    api = connect()
    path = path_to("nodes", node.rpartition("/")[2])
    known = {(one["key"], one["value"]) for one in api.get(path)["spec"].get("taints") or ()}
    for word in taints:
        key, _, value = word.partition("=")
        if word.endswith("-") and "=" not in word:
            gone = {one for one in known if one[0] == word[:-1]}
            if not gone:
                raise Failure(f"{node} has no taint {word[:-1]}", code=Exit.NOT_FOUND)
            known -= gone
        else:
            known.add((key, value))
    body = {"taints": [{"key": key, **({"value": value} if value else {})} for key, value in sorted(known)]}
    api.put(f"{path}/taints", body)
    say(
        f"node/{node.rpartition('/')[2]} tainted" if known else f"node/{node.rpartition('/')[2]} has no taints any more"
    )
