"""`muster describe`."""

from typing import Any

import click

from cli import completing, describing, options
from cli.api import Api, connect, jobs_path, path_to
from cli.names import JOB, MAINTENANCE, NODE, PRIORITY_CLASS, QUEUE, RESERVATION, Resource, resource, targets
from cli.output import now, say, terminal_width

EVENTS = 50
POLICIES = (PRIORITY_CLASS, RESERVATION, MAINTENANCE)
Object = dict[str, Any]


@click.command(epilog="Example:  muster describe job ddp-digits")
@click.argument("what", nargs=-1, shell_complete=completing.things, required=True, metavar="job|node|queue|... NAME...")
@options.namespace
def describe(what: tuple[str, ...], namespace: str) -> None:
    """Tell all about one job (with its attempts and what each end cost), node or queue."""
    api = connect()
    for number, (kind, name) in enumerate(targets(what, (JOB, NODE, QUEUE, *POLICIES))):
        if number:
            say("\n")
        say(_text(api, kind, name, namespace))


def text_of(api: Api, kind: str, name: str, namespace: str) -> str:
    """What `muster describe KIND NAME` prints."""
    return _text(api, resource(kind), name, namespace)


def _text(api: Api, kind: Resource, name: str, namespace: str) -> str:
    width, at = max(60, min(terminal_width(), 120)), now()
    if kind is QUEUE:
        return describing.queue(api.get(path_to("queues", name)), width=width, now=at)
    if kind in POLICIES:
        return describing.policy(api.get(path_to(kind.plural, name)), width=width, now=at)
    if kind is NODE:
        node = api.get(path_to("nodes", name))
        happened = api.get("/events", limit=1000)["items"]
        own = [event for event in happened if event["object"]["uid"] == node["metadata"]["uid"]][-EVENTS:]
        repairs = api.items(path_to("nodes", name, "repairs"))
        return describing.node(node, own, repairs, width=width, now=at)
    job = api.get(jobs_path(namespace, name))
    attempts = api.items(jobs_path(namespace, name, "attempts"))
    events = api.get(jobs_path(namespace, name, "events"), limit=EVENTS)["items"]
    return describing.job(job, attempts, events, width=width, now=at)
