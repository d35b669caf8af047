"""`muster admin check`, `muster admin audit`, `muster admin outbox`, `muster admin rebuild-from-agents`."""

import sys
from typing import Any

import click

from cli.api import connect, path_to
from cli.errors import Failure
from cli.group import Suggesting
from cli.output import Column, age, as_json, clean, colours, now, say, table, terminal_width
from cli.verbs.backup import backup, restore

COLUMNS = (
    Column("ID", lambda item: item["id"]),
    Column("KIND", lambda item: item["kind"]),
    Column("STATE", lambda item: item["state"]),
    Column("TRIES", lambda item: item["tries"]),
    Column("AGE", lambda item: age(item["createdAt"], now())),
    Column("ERROR", lambda item: item["error"], elastic=True),
)

STRAYS = (
    Column("NAMESPACE", lambda one: one["namespace"]),
    Column("JOB", lambda one: one["job"]),
    Column("ATTEMPT", lambda one: one["number"]),
    Column("EPOCH", lambda one: one["epoch"]),
    Column("WORKERS", lambda one: f"{len(one['workers'])}/{len(one['workers']) + one['missing']}"),
    Column("NODES", lambda one: ",".join(sorted({worker["node"] for worker in one["workers"]})), elastic=True),
    Column("STATE", lambda one: "Restored" if one["restored"] else one["problem"] or _phases(one), elastic=True),
)


def _phases(one: dict[str, Any]) -> str:
    return ",".join(sorted({worker["phase"] for worker in one["workers"]}))


@click.group(cls=Suggesting)
def admin() -> None:
    """For operators: does the cluster keep its promises?"""


admin.add_command(backup)
admin.add_command(restore)


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


@admin.command("rebuild-from-agents")
@click.option("--restore", "action", flag_value="restore", help="Put back jobs and attempts as agents run them.")
@click.option("--discard", "action", flag_value="discard", help="Stop everything that is not known (after --restore).")
@click.option("--incomplete", is_flag=True, help="With --restore: gangs of which workers are missing, too.")
@click.option("--without-silent", is_flag=True, help="Nodes that were not heard from are known to run nothing.")
@click.option("-o", "--output", "form", type=click.Choice(("table", "json")), default="table")
def rebuild(action: str | None, incomplete: bool, without_silent: bool, form: str) -> None:
    """After the database was lost or restored: what do agents still run that it does not know?

    Until you decide, nothing of it is stopped, and its nodes are on hold. Without an option this only reports.
    """
    if incomplete and action != "restore":
        raise Failure("--incomplete goes with --restore")
    if without_silent and action is None:
        raise Failure("--without-silent goes with --restore or --discard")
    api, path = connect(), "/admin/rebuild"
    if action is None:
        found = api.get(path)
    else:
        more: dict[str, Any] = {"withoutSilent": "true"} if without_silent else {}
        found = api.post(path, action=action, incomplete="true" if incomplete else "false", **more)
    if form == "json":
        say(as_json(found))
    else:
        _tell(found, action)
    refused = [one for one in found["attempts"] if not one["restored"]]
    if action == "restore" and refused:
        details = [clean(f"{one['namespace']}/{one['job']}: {one['problem']}") for one in refused]
        raise Failure(f"{len(refused)} of {len(found['attempts'])} attempts were not restored", details=details)


def _tell(found: dict[str, Any], action: str | None) -> None:
    if found["attempts"]:
        say(table(STRAYS, found["attempts"], width=terminal_width(), colour=colours()))
    else:
        say("agents run nothing that this database does not know")
    if found["silent"]:
        click.echo(f"not heard from yet: {clean(', '.join(found['silent']))}", err=True)
    if action is not None:
        say(
            f"{action}: {len(found['attempts'])} attempts; "
            + ("still on hold" if found["hold"] else "nothing is on hold")
        )
    if found["hold"]:
        click.echo(clean(found["hold"]), err=True)


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
