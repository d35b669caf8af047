"""`muster exec` and `muster attach`."""

import shutil
import sys

import click

from cli import options, talking
from cli.api import client_of
from cli.errors import Exit, Failure
from cli.names import job_name
from muster.client import path_of

WORKER = click.option("--worker", metavar="ROLE-INDEX", help="This worker; by default the one with rank 0.")
RANK = click.option("--rank", type=click.IntRange(0), metavar="N", help="The worker that has this rank.")


@click.command(
    "exec",
    epilog="\b\nExamples:\n  muster exec ddp-digits -- nvidia-smi\n  muster exec -it ddp-digits --rank 3 -- bash",
)
@click.argument("job")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@options.namespace
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on.")
@click.option("-t", "--tty", "terminal", is_flag=True, help="Give the command a terminal.")
@WORKER
@RANK
def exec_(
    job: str,
    command: tuple[str, ...],
    namespace: str,
    stdin: bool,
    terminal: bool,
    worker: str | None,
    rank: int | None,
) -> int:
    """Run a command beside a job's ranks, with their environment.

    It exits as the command does: 128 + N when signal N ended it."""
    if terminal and not (sys.stdin.isatty() or sys.stdout.isatty()):
        raise Failure("-t needs a terminal here", code=Exit.USAGE, hint="leave out -t to use pipes")
    columns, rows = shutil.get_terminal_size()
    query = {"stdin": stdin, "tty": terminal, "columns": columns, "rows": rows, "command": command}
    if terminal:
        query["term"] = options.terminal_kind()
    path = f"{path_of('Job', job_name(job), namespace)}/exec"
    with talking.session(client_of(), path, **query, **talking.target(worker, rank)) as socket:
        return talking.Console(socket, interactive=stdin, terminal=terminal).run()


@click.command(epilog="Example:  muster attach ddp-digits --rank 3")
@click.argument("job")
@options.namespace
@WORKER
@RANK
def attach(job: str, namespace: str, worker: str | None, rank: int | None) -> int:
    """Show what a rank prints from now on, straight from its node.

    It exits as the rank does; Ctrl-C leaves the rank running."""
    path = f"{path_of('Job', job_name(job), namespace)}/attach"
    with talking.session(client_of(), path, **talking.target(worker, rank)) as socket:
        return talking.Console(socket, interactive=False, terminal=False).run()
