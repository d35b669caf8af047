"""`muster admin backup`, `muster admin restore`."""

import os
import subprocess
import sys
from pathlib import Path

import click

from cli.errors import Exit
from cli.up.layout import Layout, default_folder


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def backup(file: Path) -> None:
    """Copy the whole database into FILE, while it is used.

    The database is MUSTER_DATABASE_URL's, else the data directory's. PostgreSQL's pg_dump must be on the PATH.
    """
    _run("save", file)
    click.echo(f"backed up to {file}")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def restore(file: Path) -> None:
    """Put the database back from FILE. API and controllers must be stopped.

    Afterwards everything is on hold until you have decided about what agents still run (rebuild-from-agents).
    PostgreSQL's pg_restore and psql must be on the PATH.
    """
    _run("restore", file)
    click.echo(f"restored from {file}")
    click.echo("start the servers, then: muster admin rebuild-from-agents", err=True)


def _run(verb: str, file: Path) -> None:
    """As a process of its own, for it opens the database itself."""
    url = os.environ.get("MUSTER_DATABASE_URL") or f"sqlite:///{Layout(default_folder()).database}"
    words = [sys.executable, "-P", "-m", "controller.backup", verb, str(file)]
    if subprocess.run(words, check=False, env={**os.environ, "MUSTER_DATABASE_URL": url}).returncode:
        click.get_current_context().exit(Exit.ERROR)
