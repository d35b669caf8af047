"""`muster suspend`, `resume`, `restart`, `cancel`: a wish for jobs."""

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
restart = _verb("restart", "End the attempts of jobs and begin new ones.", "will be restarted")
cancel = _verb("cancel", "End jobs for good.", "will be cancelled")
