"""`muster logs`."""

import sys

import click

from cli import completing, options
from cli.api import connect
from cli.errors import Exit, Failure
from cli.following import Following
from cli.names import job_name


@click.command(epilog="Example:  muster logs -f ddp-digits --rank 3")
@click.argument("job", shell_complete=completing.jobs)
@options.namespace
@click.option("-f", "--follow", is_flag=True, help="Go on as it is written, over restarts of the job's ranks.")
@click.option("--rank", metavar="N|worker", help="One rank, or what is said of the worker itself.")
@click.option("--worker", type=click.IntRange(0), metavar="I", help="Only this worker.")
@click.option("--role", metavar="ROLE", help="Only workers of this role.")
@click.option("--all-ranks", is_flag=True, help="Every rank, each line with its origin.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="An earlier attempt; by default the newest.")
@click.option("--tail", type=click.IntRange(0), metavar="N", help="Only the last N lines.")
def logs(
    job: str,
    namespace: str,
    follow: bool,
    rank: str | None,
    worker: int | None,
    role: str | None,
    all_ranks: bool,
    attempt: int | None,
    tail: int | None,
) -> None:
    """Print what the ranks of a job wrote."""
    if rank is not None and rank != "worker" and not rank.isdigit():
        raise Failure(f"--rank {rank}: expected a number or `worker`", code=Exit.USAGE)
    if rank is not None and all_ranks:
        raise Failure("--rank and --all-ranks do not go together", code=Exit.USAGE)
    name, api = job_name(job), connect()
    query = {"rank": rank, "worker": worker, "role": role, "tail": tail, "allRanks": 1 if all_ranks else None}
    if follow:
        followed = Following(api, name, namespace, query, say=lambda text: click.echo(f"-- {text} --", err=True))
        parts = followed.job() if attempt is None else followed.attempt(attempt)
    else:
        parts = api.logs(name, namespace, attempt=attempt, **query)
    for part in parts:
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
