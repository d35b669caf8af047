"""`muster config`: clusters by name."""

import os
from typing import Any

import click

from cli.api import failure
from cli.errors import Exit, Failure, suggestion
from cli.group import Suggesting
from cli.output import Column, say, table
from muster import contexts
from muster.contexts import Context
from muster.transport import NoCluster


@click.group(cls=Suggesting)
def config() -> None:
    """Keep clusters by name (contexts), and choose the one that commands talk to."""


def _read() -> tuple[str, dict[str, Context]]:
    try:
        return contexts.read(os.environ)
    except NoCluster as error:
        raise failure(error) from None


def _write(current: str, known: dict[str, Context]) -> None:
    try:
        contexts.write(os.environ, current, known)
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}") from None


def _known(name: str, known: dict[str, Context]) -> Context:
    if name not in known:
        hint = suggestion(name, list(known)) or f"known: {', '.join(known) or 'none'}"
        raise Failure(f"there is no context {name!r}", code=Exit.NOT_FOUND, hint=hint)
    return known[name]


@config.command("get-contexts")
def get_contexts() -> None:
    """List the contexts; * is the current one."""
    current, known = _read()
    if not known:
        click.echo(f"no contexts in {contexts.file_of(os.environ)}", err=True)
        return
    columns = [
        Column("CURRENT", lambda one: "*" if one["name"] == current else " "),
        Column("NAME", lambda one: one["name"]),
        Column("SERVER", lambda one: one["server"]),
        Column("NAMESPACE", lambda one: one["namespace"]),
    ]
    rows: list[dict[str, Any]] = [one._asdict() for one in known.values()]
    say(table(columns, rows))


@config.command("current-context")
def current_context() -> None:
    """Print the name of the current context."""
    current, known = _read()
    say(_known(os.environ.get("MUSTER_CONTEXT") or current, known).name)


@config.command("use-context")
@click.argument("name")
def use_context(name: str) -> None:
    """Let commands talk to this cluster from now on."""
    _, known = _read()
    _write(_known(name, known).name, known)
    say(f"switched to context {name}")


@config.command(
    "set-context", epilog="Example:  muster config set-context lab --server https://muster.lab --token-file ~/lab-token"
)
@click.argument("name")
@click.option("--server", metavar="URL")
@click.option("--token", metavar="TOKEN", help="Kept in the file; --token-file keeps it where it is.")
@click.option("--token-file", metavar="FILE")
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Of commands that name none.")
def set_context(
    name: str, server: str | None, token: str | None, token_file: str | None, namespace: str | None
) -> None:
    """Make or change a context; the first one is the current one at once."""
    current, known = _read()
    old = known.get(name)
    if old is None and not server:
        raise Failure("a new context needs --server URL", code=Exit.USAGE)
    if server and not server.startswith(("http://", "https://")):
        raise Failure(f"--server: expected http://HOST or https://HOST, found {server!r}", code=Exit.USAGE)
    base = old or Context(name, "")
    known[name] = Context(
        name,
        (server or base.server).rstrip("/"),
        token or ("" if token_file else base.secret),
        os.path.abspath(token_file) if token_file else ("" if token else base.token_file),
        namespace or base.namespace,
    )
    _write(current or name, known)
    say(f"context {name} {'changed' if old else 'created'}")


@config.command("delete-context")
@click.argument("name")
def delete_context(name: str) -> None:
    """Forget a context."""
    current, known = _read()
    del known[_known(name, known).name]
    _write("" if current == name else current, known)
    say(f"context {name} deleted")


@config.command()
def view() -> None:
    """Print the file, tokens left out."""
    from cli.output import as_yaml

    current, known = _read()
    shown = {
        one.name: {
            "server": one.server,
            "token": "(kept here)" if one.secret else one.token_file or None,
            "namespace": one.namespace,
        }
        for one in known.values()
    }
    say(as_yaml({"file": str(contexts.file_of(os.environ)), "current": current, "contexts": shown}))
