"""`muster get`."""

from functools import partial
from typing import Any

import click

from cli import completing, forms, jsonpath, options
from cli.api import Api, NotThere, connect, jobs_path, path_to
from cli.columns import NAMESPACE, checkpoint_name, columns_of
from cli.errors import Exit, Failure
from cli.names import ALL, CLAIM, EVENT, JOB, Resource, resource, targets
from cli.output import Column, as_json, as_yaml, colours, now, say, table, terminal_width

Object = dict[str, Any]


@click.command(
    epilog="""\b
Examples:
  muster get jobs -A
  muster get job/ddp-digits -o yaml
  muster get attempts ddp-digits
  muster get checkpoints ddp-digits step-000050"""
)
@click.argument("what", nargs=-1, shell_complete=completing.things, required=True, metavar="RESOURCE [NAME]...")
@options.namespace
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="All projects.")
@click.option("-l", "--selector", metavar="KEY=VALUE,...", help="Only jobs with these labels.")
@click.option("--field-selector", "fields", metavar="FIELD=VALUE,...", help="Only jobs with e.g. status.phase=Running.")
@click.option("-o", "--output", "form", type=forms.Form(), default="table", help="How it is printed.")
@click.option("--sort-by", "by", metavar="PATH", help="E.g. .metadata.createdAt.")
@click.option("-L", "--label-columns", "labels", multiple=True, metavar="KEY", help="A column for this label.")
@click.option("-w", "--watch", is_flag=True, help="Go on with what changes.")
@click.option("--no-headers", is_flag=True, help="A table without its first line.")
def get(
    what: tuple[str, ...],
    namespace: str,
    everywhere: bool,
    selector: str | None,
    fields: str | None,
    form: str,
    by: str | None,
    labels: tuple[str, ...],
    watch: bool,
    no_headers: bool,
) -> None:
    """List jobs (jo), nodes (no), queues (q), priorityclasses (pc), reservations (rsv), maintenancewindows (mw),
    claims (cl): room promised to jobs while others vacate it,
    events (ev), attempts JOB, checkpoints JOB [NAME]."""
    api = connect()
    kind, names = _asked(what)
    if (selector or fields) and (kind is not JOB or names):
        raise Failure("--selector and --field-selector go with a list of jobs only", code=Exit.USAGE)
    if names and everywhere:
        raise Failure("a name and --all-namespaces do not go together", code=Exit.USAGE)
    where = None if everywhere else namespace
    found, missing = _fetch(api, kind, names, where, selector, fields)
    found = forms.in_order(found, by) if by else found
    single = bool(len(names) == 1 and found and not kind.of_job)
    shown = _shown(kind, found, form, single=single, headers=not no_headers, everywhere=everywhere, labels=labels)
    if shown:
        say(shown)
    if not found and not names and form in ("table", "wide"):
        place = "" if everywhere or not kind.namespaced else f" in namespace {namespace}"
        click.echo(f"no {kind.plural}{place}", err=True)
    if watch and not missing:
        from cli.watching import watch as go_on

        def again() -> list[Object]:
            return _fetch(api, kind, names, where, selector, fields)[0]

        def show(some: list[Object], headers: bool) -> str:
            return _shown(kind, some, form, single=False, headers=headers, everywhere=everywhere, labels=labels)

        go_on(api, kind, found, again, show)
    if missing:
        raise Failure(missing[0], code=Exit.NOT_FOUND, details=missing[1:])


def _asked(what: tuple[str, ...]) -> tuple[Resource, list[str]]:
    if "/" not in what[0]:
        return resource(what[0]), list(what[1:])
    asked = targets(what, ALL)
    if len({kind.word for kind, _ in asked}) > 1:
        raise Failure("one kind at a time", code=Exit.USAGE)
    return asked[0][0], [name for _, name in asked]


def _fetch(
    api: Api, kind: Resource, names: list[str], namespace: str | None, selector: str | None, fields: str | None
) -> tuple[list[Object], list[str]]:
    """What was found, and a sentence for each name that was not."""
    if kind.of_job:
        return _of_job(api, kind, names, namespace)
    if kind is EVENT:
        if names:
            raise Failure("events have no names", code=Exit.USAGE, hint="muster events --job NAME")
        return api.items("/events" if namespace is None else path_to("namespaces", namespace, "events"), limit=1000), []
    if kind is CLAIM:
        every = api.items("/claims" if namespace is None else path_to("namespaces", namespace, "claims"))
        known = {_label(kind, one): one for one in every}
        missing = [f"job {name} holds no claim" for name in names if name not in known]
        return ([known[name] for name in names if name in known] if names else every), missing
    if not names:
        path = f"/{kind.plural}" if not kind.namespaced or namespace is None else jobs_path(namespace)
        return api.items(path, labelSelector=selector, fieldSelector=fields), []
    found, missing = [], []
    for name in names:
        try:
            found.append(api.get(jobs_path(namespace or "", name) if kind is JOB else path_to(kind.plural, name)))
        except NotThere as refusal:
            missing.append(refusal.message)
    return found, missing


def _of_job(api: Api, kind: Resource, names: list[str], namespace: str | None) -> tuple[list[Object], list[str]]:
    if not names or namespace is None:
        raise Failure(f"{kind.plural} of which job?", code=Exit.USAGE, hint=f"muster get {kind.plural} JOB")
    job, *wanted = names
    every = api.items(jobs_path(namespace, job.removeprefix("job/"), kind.plural))
    if not wanted:
        return every, []
    known = {_label(kind, one): one for one in every}
    missing = [f"job {job} has no {kind.word} {name!r}" for name in wanted if name not in known]
    return [known[name] for name in wanted if name in known], missing


def _label(kind: Resource, one: Object) -> str:
    if kind.word == "attempt":
        return str(one["number"])
    if kind.word == "checkpoint":
        return checkpoint_name(one)
    return str(one["uid"] if kind is EVENT else one["metadata"]["name"])


def _shown(
    kind: Resource,
    found: list[Object],
    form: str,
    *,
    single: bool,
    headers: bool,
    everywhere: bool,
    labels: tuple[str, ...] = (),
) -> str:
    if form.startswith("custom-columns="):
        return forms.custom(form, found, headers=headers)
    if form.startswith("jsonpath="):
        whole = found[0] if single else {"kind": f"{kind.kind}List", "items": found}
        return jsonpath.render(form.partition("=")[2], whole)
    if form in ("json", "yaml"):
        whole = found[0] if single else {"apiVersion": "muster.dev/v1", "kind": f"{kind.kind}List", "items": found}
        return as_json(whole) if form == "json" else as_yaml(whole)
    if form == "name":
        return "\n".join(f"{kind.word}/{_label(kind, one)}" for one in found)
    if not found:
        return ""
    columns = [column for column in columns_of(kind.kind, now()) if form == "wide" or not column.wide]
    if everywhere and kind is JOB:
        columns.insert(0, NAMESPACE)
    columns += [Column(key.rpartition("/")[2].upper(), partial(_labelled, key)) for key in labels]
    width = None if form == "wide" else terminal_width()
    return table(columns, found, headers=headers, width=width, colour=colours())


def _labelled(key: str, one: Object) -> object:
    return one["metadata"].get("labels", {}).get(key)
