"""`muster drain`."""

import time

import click

from cli.api import Api, connect, path_to
from cli.errors import Exit, Failure
from cli.names import NODE, targets
from cli.output import say

LOOK = 0.5


@click.command(epilog="Example:  muster drain node-3 --reason 'new cable'")
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@click.option("--finish", is_flag=True, help="Let what runs there end by itself.")
@click.option("--reason", default="", help="Shown to who asks why.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the nodes are empty.")
@click.option("--timeout", type=click.FloatRange(0), default=600.0, show_default=True, help="Seconds to wait at most.")
def drain(nodes: tuple[str, ...], finish: bool, reason: str, no_wait: bool, timeout: float) -> None:
    """Empty nodes: nothing new starts there, and what runs there saves and goes on elsewhere.

    `muster uncordon` takes a node back into use."""
    api = connect()
    words = nodes if nodes[0] in ("node", "nodes", "no") or "/" in nodes[0] else ("node", *nodes)
    names = [name for _, name in targets(words, (NODE,))]
    for name in names:
        api.post(path_to("nodes", name, "drain"), policy="finish" if finish else "now", reason=reason)
        say(f"node/{name} is being drained")
    if not no_wait:
        _wait(api, names, timeout)


def _wait(api: Api, names: list[str], timeout: float) -> None:
    """Tells each change of what is left."""
    said: dict[str, str] = {}
    deadline = time.monotonic() + timeout
    left = list(names)
    while left:
        for name in list(left):
            node = api.get(path_to("nodes", name))
            if node["spec"].get("drain") is None:
                raise Failure(f"node {name} was taken back into use", code=Exit.REFUSED)
            there = api.items(path_to("nodes", name, "workers"))
            jobs = sorted({f"{one['namespace']}/{one['job']}" for one in there})
            told = f"waits for {', '.join(jobs)}" if jobs else "empty"
            if said.get(name) != told:
                said[name] = told
                say(f"node/{name} {told}" if jobs else f"node/{name} drained")
            if not jobs:
                left.remove(name)
        if left and time.monotonic() >= deadline:
            raise Failure(f"not empty after {timeout:g} s: {', '.join(left)}", code=Exit.TIMEOUT)
        if left:
            time.sleep(LOOK)
