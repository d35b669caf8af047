"""`muster admin check`, `muster admin audit`, `muster admin outbox`."""

import sys

import click

from cli.api import connect, path_to
from cli.errors import Failure
from cli.group import Suggesting
from cli.output import Column, age, as_json, clean, colours, now, say, table, terminal_width

COLUMNS = (
    Column("ID", lambda item: item["id"]),
    Column("KIND", lambda item: item["kind"]),
    Column("STATE", lambda item: item["state"]),
    Column("TRIES", lambda item: item["tries"]),
    Column("AGE", lambda item: age(item["createdAt"], now())),
    Column("ERROR", lambda item: item["error"], elastic=True),
)


@click.group(cls=Suggesting)
def admin() -> None:
    """For operators: does the cluster keep its promises?"""


@admin.command()
@click.option("-o", "--output", "form", type=click.Choice(("table", "json")), default="table")
def check(form: str) -> None:
    """Check every invariant of the running cluster. Exit code 1 when one is broken."""
    found = connect().get("/admin/check")
    if form == "json":
        say(as_json(found))
    broken = [one for one in found["invariants"] if one["broken"]]
    if form == "table":
        for one in found["invariants"]:
            say(f"{'BROKEN' if one['broken'] else 'ok':<6}  {one['name'].replace('_', ' ')}")
    if broken:
        details = [clean(f"{one['name']}: {each}") for one in broken for each in one["broken"]]
        raise Failure(f"{len(broken)} of {len(found['invariants'])} invariants are broken", details=details)
    if form == "table":
        say(f"all {len(found['invariants'])} invariants hold at revision {found['revision']}")


@admin.command()
@click.option("--since", metavar="TIME", help="RFC 3339, e.g. 2026-11-30T12:00:00Z.")
@click.option("--until", metavar="TIME", help="Entries before this time.")
@click.option("--actor", metavar="NAME", help="Only what this one asked for.")
@click.option("-n", "--namespace", metavar="NAME", help="Only this namespace (all).")
def audit(since: str | None, until: str | None, actor: str | None, namespace: str | None) -> None:
    """Print who wrote what, and what was refused, as JSON lines, the oldest first."""
    wanted = {"since": since, "until": until, "actor": actor, "namespace": namespace}
    for part in connect().stream("/admin/audit", **wanted):
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()


@admin.group(cls=Suggesting, invoke_without_command=True)
@click.pass_context
def outbox(ctx: click.Context) -> None:
    """Side effects, e.g. calls of web hooks, that were given up: list them, try them again."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(listed)


@outbox.command("list")
@click.option("--state", type=click.Choice(("dead", "due", "done")), default="dead", help="Which ones (dead).")
@click.option("-o", "--output", "form", type=click.Choice(("table", "json")), default="table")
def listed(state: str = "dead", form: str = "table") -> None:
    """List the items of the outbox, the oldest first."""
    items = connect().get("/admin/outbox", state=state)["items"]
    if form == "json":
        say(as_json(items))
    elif items:
        say(table(COLUMNS, items, width=terminal_width(), colour=colours()))
    else:
        click.echo(f"no {state} items in the outbox", err=True)


@outbox.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def retry(ids: tuple[str, ...]) -> None:
    """Try dead items again, with as many tries as a new one has."""
    api = connect()
    for each in ids:
        api.post(path_to("admin", "outbox", each, "retry"))
        say(f"outbox/{clean(each)} is due again")
