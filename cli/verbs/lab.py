"""`muster lab`: break the embedded cluster on purpose, and mend it."""

from pathlib import Path
from typing import Any

import click

from cli.errors import Exit, Failure
from cli.group import Suggesting
from cli.output import Column, say, table
from cli.up.control import NotRunning, Refused, ask
from cli.up.layout import default_folder


@click.group(cls=Suggesting, no_args_is_help=True)
@click.option("--data-dir", type=click.Path(path_type=Path), help="Of the cluster (MUSTER_DATA_DIR, else ~/.muster).")
@click.pass_context
def lab(ctx: click.Context, data_dir: Path | None) -> None:
    """Break the embedded cluster on purpose."""
    ctx.obj = data_dir.absolute() if data_dir else default_folder()


@lab.command()
@click.pass_obj
def status(folder: Path) -> None:
    """The processes of the cluster."""
    state = _ask(folder, do="status")
    say(f"{state['url']}, {'ready' if state['ready'] else 'starting'}, pid {state['pid']}")
    rows = [{"name": name, **process} for name, process in state["processes"].items()]
    columns = [
        Column("PROCESS", lambda one: one["name"]),
        Column("PID", lambda one: one["pid"]),
        Column("RESTARTS", lambda one: one["restarts"]),
        Column("STATE", lambda one: "lost" if one["off"] else "running" if one["pid"] else "restarting"),
    ]
    say(table(columns, rows))


@lab.command()
@click.argument("node")
@click.pass_obj
def lose(folder: Path, node: str) -> None:
    """A node loses its power: agent, shims and ranks die at once and nothing starts again."""
    killed = _ask(folder, do="lose", node=node)["killed"]
    say(f"{node} is lost: {len(killed)} processes killed; `muster lab return {node}` brings it back")


@lab.command("return")
@click.argument("node")
@click.pass_obj
def give_back(folder: Path, node: str) -> None:
    """A lost node comes back."""
    _ask(folder, do="return", node=node)
    say(f"{node} starts again")


def _ask(folder: Path, **request: Any) -> dict[str, Any]:
    try:
        return ask(folder, **request)
    except NotRunning as error:
        raise Failure(str(error), code=Exit.UNREACHABLE, hint="start one with `muster up`") from None
    except Refused as error:
        raise Failure(str(error), code=Exit.REFUSED) from None
    except (OSError, ValueError) as error:
        raise Failure(f"the cluster in {folder} does not answer: {error}", code=Exit.UNREACHABLE) from None
