"""`muster events`."""

import time
from collections.abc import Iterator
from typing import Any

import click

from cli import options
from cli.api import Api, Unreachable, connect, jobs_path, path_to
from cli.columns import NAMESPACE, columns_of
from cli.names import job_name
from cli.output import as_json, as_yaml, colours, now, paint, printable, say, table, terminal_width

Object = dict[str, Any]
PAUSE = 0.5


@click.command()
@options.namespace
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="All projects, and what belongs to none.")
@click.option("--job", metavar="NAME", help="Only of this job.")
@click.option("-w", "--watch", is_flag=True, help="Go on as they come.")
@options.output
@click.option("--no-headers", is_flag=True, help="A table without its first line.")
def events(namespace: str, everywhere: bool, job: str | None, watch: bool, form: str, no_headers: bool) -> None:
    """Tell what happened, oldest first, and with -w what happens."""
    api = connect()
    every = "/events" if everywhere else path_to("namespaces", namespace, "events")
    first = jobs_path(namespace, job_name(job), "events") if job else every
    answer = api.get(first, limit=200)
    if watch:
        uid = api.get(jobs_path(namespace, job_name(job)))["metadata"]["uid"] if job else None
        for one in answer["items"]:
            say(line(one, form))
        for one in _coming(api, every, int(answer["metadata"]["resourceVersion"])):
            if uid is None or one["object"]["uid"] == uid:
                say(line(one, form))
        return
    if form in ("json", "yaml"):
        say(as_json(answer) if form == "json" else as_yaml(answer))
        return
    columns = [column for column in columns_of("Event", now()) if form == "wide" or not column.wide]
    if everywhere:
        columns.insert(0, NAMESPACE_OF_EVENT)
    width = None if form == "wide" else terminal_width()
    if shown := table(columns, answer["items"], headers=not no_headers, width=width, colour=colours()):
        say(shown)


NAMESPACE_OF_EVENT = type(NAMESPACE)("NAMESPACE", lambda one: one.get("namespace"))


def _coming(api: Api, path: str, after: int) -> Iterator[Object]:
    """Events after this revision, for ever. A cluster that does not answer for a while is waited for."""
    told = False
    while True:
        try:
            items = api.get(path, after=after, limit=1000)["items"]
            told = False
        except Unreachable as failure:
            if not told:
                click.echo(f"note: {failure.message}; waiting", err=True)
            told, items = True, []
        for one in items:
            after = max(after, int(one["revision"]))
            yield one
        if not items:
            time.sleep(PAUSE)


def line(one: Object, form: str) -> str:
    """One event on one line; with json one object a line."""
    if form == "json":
        import json

        return json.dumps(one, ensure_ascii=False)
    if form == "yaml":
        return "---\n" + as_yaml(one)
    what = f"{one['object']['kind'].lower()}/{one['object']['name']}"
    if form == "name":
        return what
    when = (one.get("at") or "")[11:19]
    reason = paint(one["reason"], "warning") if one["level"] == "warning" and colours() else one["reason"]
    return f"{when}  {what}  {reason}  {printable(one['message'])}"
