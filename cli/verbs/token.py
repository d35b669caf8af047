"""`muster token` and `muster auth`."""

from typing import Any

import click

from cli import options
from cli.api import connect, path_to
from cli.errors import Exit, Failure
from cli.group import Suggesting
from cli.names import ALL, JOB, resource
from cli.output import Column, age, as_json, as_yaml, now, say, table, until

ROLES = ("viewer", "submitter", "operator", "admin", "agent")
Object = dict[str, Any]


@click.group(cls=Suggesting)
def token() -> None:
    """Make, list and revoke tokens."""


@token.command(
    epilog="""\b
Examples:
  muster token create --role submitter -n vision --expires 30d
  export MUSTER_TOKEN=$(muster token create --role viewer -o value)"""
)
@click.option("--role", type=click.Choice(ROLES), required=True, help="What it may do.")
@click.option("--name", metavar="NAME", default="", help="Of whom or what it is.")
@click.option("-n", "--namespace", metavar="NAMESPACE", default="", help="The one that it reaches; all unless said.")
@click.option("--expires", metavar="DURATION", help="Such as 30d; without it it is good until it is revoked.")
@click.option("-o", "--output", "form", type=click.Choice(("table", "value", "json", "yaml")), default="table")
def create(role: str, name: str, namespace: str, expires: str | None, form: str) -> None:
    """Make a token. It is shown once: only its hash is kept."""
    wanted = {"role": role, "name": name, "namespace": namespace, "expires": expires}
    made = connect().post("/tokens", {key: value for key, value in wanted.items() if value})
    if form == "value":
        return say(made["token"])
    if form in ("json", "yaml"):
        return say(as_json(made) if form == "json" else as_yaml(made))
    say(f"token/{made['name']} created ({role}{f' of namespace {namespace}' if namespace else ''})")
    say(made["token"])
    return click.echo("hint: it is not shown again", err=True)


@token.command("list")
@click.option("-o", "--output", "form", type=click.Choice(("table", "json", "yaml")), default="table")
def list_(form: str) -> None:
    """List the tokens, never their secret part."""
    found = connect().get("/tokens")["items"]
    if form != "table":
        return say(as_json(found) if form == "json" else as_yaml(found))
    at = now()
    columns = [
        Column("NAME", lambda one: one["name"]),
        Column("ROLE", lambda one: one["role"]),
        Column("NAMESPACE", lambda one: one["namespace"] or "*"),
        Column("UID", lambda one: one["uid"][:13]),
        Column("AGE", lambda one: age(one["createdAt"], at)),
        Column("USED", lambda one: age(one["lastUsedAt"], at)),
        Column("EXPIRES", lambda one: until(one["expiresAt"], at)),
        Column("BY", lambda one: one["createdBy"], elastic=True),
    ]
    return say(table(columns, found))


@token.command()
@click.argument("token", metavar="NAME|UID")
def revoke(token: str) -> None:
    """Make a token useless."""
    say(f"token/{connect().delete(path_to('tokens', token))['name']} revoked")


@click.group(cls=Suggesting)
def auth() -> None:
    """Who one is, and what one may do."""


@auth.command()
def whoami() -> None:
    """Print whose token is used."""
    found = connect().get("/whoami")
    say(f"{found['name']} ({found['role']}{' of namespace ' + found['namespace'] if found['namespace'] else ''})")


VERBS = {
    "get": "GET", "list": "GET", "watch": "GET", "describe": "GET", "create": "POST", "submit": "POST", "apply": "PUT", "update": "PUT",
    "edit": "PUT", "patch": "PUT", "delete": "DELETE", "cancel": "POST", "suspend": "POST", "resume": "POST", "restart": "POST",
    "exec": "GET", "cordon": "POST", "uncordon": "POST", "drain": "POST",
}  # fmt: skip
WISHES = ("cancel", "suspend", "resume", "restart", "exec", "cordon", "uncordon", "drain")


@auth.command("can-i", epilog="Examples:\n  muster auth can-i create jobs -n vision\n  muster auth can-i drain nodes")
@click.argument("verb")
@click.argument("kind")
@options.namespace
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; exit with 0 or 1.")
def can_i(verb: str, kind: str, namespace: str, quiet: bool) -> None:
    """Tell whether one may do that. Exits with 1 where not."""
    if verb not in VERBS:
        raise Failure(f"{verb!r} is not a verb", code=Exit.USAGE, hint=f"verbs: {', '.join(VERBS)}")
    path = _path(kind, verb, namespace)
    found = connect().get("/access", method=VERBS[verb], address=path)
    if not quiet:
        say("yes" if found["allowed"] else f"no: {found['why']}")
    if not found["allowed"]:
        click.get_current_context().exit(1)


def _path(kind: str, verb: str, namespace: str) -> str:
    if kind in ("token", "tokens"):
        return "/api/v1/tokens"
    if kind in ("audit", "outbox"):
        return f"/api/v1/admin/{kind}"
    known = resource(kind, ALL)
    base = f"/api/v1/namespaces/{namespace}/jobs" if known is JOB or known.of_job else f"/api/v1/{known.plural}"
    if known.of_job:
        return f"{base}/x/{known.plural}"
    return base + (f"/x/{verb}" if verb in WISHES else "/x" if VERBS[verb] in ("PUT", "DELETE") else "")
