"""`muster wait`."""

import time
from collections.abc import Callable
from typing import Any

import click

from cli import options
from cli.api import NotThere, Unreachable, connect, jobs_path
from cli.errors import Exit, Failure, suggestion
from cli.names import JOB, targets
from cli.output import say
from muster.quantity import parse_duration
from muster.states import JOB_TERMINAL, JobPhase

PAUSE = 0.25
Object = dict[str, Any]


class Impossible(Failure):
    """What is waited for cannot come any more."""


@click.command(epilog="Example:  muster wait job/ddp-digits --for=phase=Succeeded --timeout 2h")
@click.argument("what", nargs=-1, required=True, metavar="job/NAME...")
@options.namespace
@click.option(
    "--for",
    "goal",
    default="terminal",
    show_default=True,
    metavar="phase=PHASE|terminal|deleted",
    help="What to wait for.",
)
@click.option("--timeout", default="60s", show_default=True, metavar="DURATION", help="Give up after this; or `never`.")
def wait(what: tuple[str, ...], namespace: str, goal: str, timeout: str) -> None:
    """Wait until jobs are where you want them. Ends at once when that has become impossible."""
    look = reached(goal)
    try:
        patience = float("inf") if timeout == "never" else parse_duration(timeout if timeout != "0" else 0)
    except ValueError as error:
        raise Failure(f"--timeout {timeout}: {error}", code=Exit.USAGE) from None
    names = [name for _, name in targets(what, (JOB,))]
    deadline = time.monotonic() + patience
    for name in names:
        say(f"job/{name} {_until(namespace, name, look, deadline)}")


def reached(goal: str) -> Callable[[str, Object | None], str | None]:
    """A function of a job's name and the job (None: not there): how it got there, or None for not yet. It raises
    Impossible. Raises Failure when `goal` is none."""
    if goal in ("deleted", "delete"):
        return lambda name, job: "deleted" if job is None else None
    word, _, wanted = goal.partition("=")
    phases = [phase.value for phase in JobPhase]
    if goal != "terminal" and (word != "phase" or wanted not in phases):
        known = [*(f"phase={phase}" for phase in phases), "terminal", "deleted"]
        hint = (
            suggestion(goal if wanted else f"phase={goal}", known)
            or f"phase=PHASE with one of {', '.join(phases)}; terminal; deleted"
        )
        raise Failure(f"--for={goal}: unknown goal", code=Exit.USAGE, hint=hint)
    goals = JOB_TERMINAL if goal == "terminal" else {JobPhase(wanted)}

    def look(name: str, job: Object | None) -> str | None:
        if job is None:
            raise NotThere(f"there is no job '{name}'", code=Exit.NOT_FOUND)
        phase, status = JobPhase(job["status"]["phase"]), job["status"]
        if phase in goals:
            return f"is {phase}"
        if phase in JOB_TERMINAL:
            why = ": ".join(part for part in (status.get("reason"), status.get("message")) if part)
            raise Impossible(f"job/{name} is {phase} and will not be {wanted}" + (f" ({why})" if why else ""))
        return None

    return look


def _until(namespace: str, name: str, look: Callable[[str, Object | None], str | None], deadline: float) -> str:
    """Polls, so that it outlives every process of the cluster."""
    phase = "unknown"
    api = connect()
    while True:
        try:
            job: Object | None = api.get(jobs_path(namespace, name))
        except NotThere:
            job = None
        except Unreachable:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE)
            continue
        if done := look(name, job):
            return done
        phase = job["status"]["phase"] if job else phase
        if time.monotonic() > deadline:
            raise Failure(f"timed out: job/{name} is {phase}", code=Exit.TIMEOUT)
        time.sleep(PAUSE)
