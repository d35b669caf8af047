"""`muster suspend`, `resume`, `restart`, `cancel`: a wish for jobs."""

import os
import re
from pathlib import Path

import click

from cli import completing, options
from cli.api import connect
from cli.names import JOB, targets
from cli.output import say


def _verb(name: str, about: str, done: str) -> click.Command:
    @click.command(name, help=about)
    @click.argument("jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=completing.jobs)
    @options.namespace
    def verb(jobs: tuple[str, ...], namespace: str) -> None:
        api = connect()
        words = jobs if jobs[0] in ("job", "jobs", "jo") or "/" in jobs[0] else ("job", *jobs)
        for _, job in targets(words, (JOB,)):
            api.act("Job", job, name, namespace)
            say(f"job/{job} {done}")

    return verb


suspend = _verb("suspend", "Stop jobs and keep their places and checkpoints.", "will be suspended")
resume = _verb("resume", "Let suspended jobs go on from their checkpoints.", "resumed")


@click.command("restart")
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=completing.jobs)
@click.option(
    "--workdir", type=click.Path(file_okay=False, path_type=Path), help="The code is in this folder from now on."
)
@click.option(
    "--from", "begin", metavar="step=N", help="Begin from its checkpoint of step N; step=0: from the beginning."
)
@options.namespace
def restart(jobs: tuple[str, ...], workdir: Path | None, begin: str | None, namespace: str) -> None:
    """End the attempts of jobs and begin new ones; jobs that have ended begin anew, with the checkpoints they had."""
    query: dict[str, object] = {}
    if workdir is not None:
        query["workdir"] = os.path.abspath(workdir)
    if begin is not None:
        match = re.fullmatch(r"(?:step=)?(\d{1,18})", begin)
        if match is None:
            raise click.BadParameter(f"expected step=N, e.g. step=1200, found {begin!r}", param_hint="--from")
        query["fromStep"] = int(match[1])
    api = connect()
    words = jobs if jobs[0] in ("job", "jobs", "jo") or "/" in jobs[0] else ("job", *jobs)
    for _, job in targets(words, (JOB,)):
        api.act("Job", job, "restart", namespace, **query)
        say(f"job/{job} will be restarted")


cancel = _verb("cancel", "End jobs for good.", "will be cancelled")
