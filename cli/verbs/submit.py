"""`muster submit` and `muster run`."""

import os
import shutil
import sys
import time as clock
from collections.abc import Callable
from typing import Any, TypeVar

import click

from cli import oneliners, options
from cli.api import Api, connect, jobs_path
from cli.errors import Exit, Failure
from cli.output import as_yaml, say

F = TypeVar("F", bound=Callable[..., Any])
Object = dict[str, Any]
TRIES = 100
ENDED = ("Succeeded", "Failed", "Cancelled")


def _shape(function: F) -> F:
    for option in reversed(
        (
            click.option(
                "--name", metavar="NAME", help="By default that of the program; a number is added where it is in use."
            ),
            click.option("-w", "--workers", type=click.IntRange(1), default=1, metavar="N", help="Of the gang."),
            click.option(
                "-g",
                "--gpus",
                multiple=True,
                metavar="TYPE:COUNT",
                help="Devices of each worker; repeated: any of these.",
            ),
            click.option("--cpu", metavar="CORES", help="Of each worker."),
            click.option("--memory", metavar="SIZE", help="Of each worker, e.g. 64Gi."),
            click.option("-q", "--queue", metavar="QUEUE", help="Where it waits."),
            click.option("-p", "--priority", metavar="CLASS", help="Priority class."),
            click.option("--time", metavar="DURATION", help="Time limit, e.g. 2h30m."),
            click.option("--image", metavar="IMAGE", help="The container image that it runs in."),
            click.option("-e", "--env", multiple=True, metavar="KEY[=VALUE]", help="Of the environment; repeatable."),
            click.option("-l", "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Repeatable."),
        )
    ):
        function = option(function)
    return function


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="""\b
Examples:
  muster submit -w 2 -g h100:8 -- python train.py
  muster submit -f torchrun -g h100:8 -w 4 --checkpoint ckpt -- train.py
  muster submit --array 0-9%2 -- sh -c 'echo $MUSTER_ARRAY_INDEX'""",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@_shape
@click.option("-f", "--framework", metavar="NAME", help="How ranks are started (command, torchrun, ...).")
@click.option("--checkpoint", metavar="DIR", help="Where it saves, and goes on from.")
@click.option("--after", multiple=True, metavar="JOB", help="A job that must have succeeded; repeatable.")
@click.option("--array", metavar="INDICES", help="Many of it: 0-99%10.")
@click.option("--within", "level", metavar="LEVEL", help="All workers in one domain of this level of the fabric.")
@click.option("--follow", is_flag=True, help="Print what it writes, until it ends; exit as it does.")
@click.option("--dry-run", is_flag=True, help="Print the manifest; let the server check it, and write nothing.")
@options.namespace
def submit(
    command: tuple[str, ...], env: tuple[str, ...], labels: tuple[str, ...], name: str | None,
    namespace: str, follow: bool, dry_run: bool, **shape: Any,
) -> int | None:  # fmt: skip
    """Submit a job in one line. It starts in this folder."""
    manifest = oneliners.job(
        command,
        name=name or oneliners.name_of(command),
        namespace=namespace,
        workdir=os.getcwd(),
        env=oneliners.pairs(env, "-e", os.environ),
        labels=oneliners.pairs(labels, "-l", {}),
        **(shape | {"checkpoint": os.path.abspath(shape["checkpoint"]) if shape.get("checkpoint") else None}),
    )
    api = connect()
    made = create(api, manifest, fixed=name is not None, dry_run=dry_run)
    if dry_run:
        say(as_yaml(manifest))
        return None
    _told(made)
    return followed(api, made) if follow else None


def create(api: Api, manifest: Object, *, fixed: bool, dry_run: bool = False) -> Object:
    """A name that nobody gave makes room for one that is in use: `train`, `train-2`. Raises Failure."""
    metadata = manifest["metadata"]
    for turn in range(1, 2 if fixed else TRIES):
        own = metadata["name"] if turn == 1 else f"{metadata['name']}-{turn}"
        document = manifest | {"metadata": metadata | {"name": own}}
        try:
            return api.post(jobs_path(metadata["namespace"]), document, **({"dryRun": True} if dry_run else {}))
        except Failure as failure:
            if fixed or "live job" not in failure.message:
                raise
    raise Failure(
        f"{TRIES} live jobs are called {metadata['name']}", code=Exit.REFUSED, hint="--name gives it another one"
    )


def _told(made: Object) -> None:
    name = made["metadata"]["name"]
    say(f"job/{name} created")
    for warning in made.get("status", {}).get("warnings") or ():
        click.echo(f"warning: job/{name}: {warning}", err=True)


def followed(api: Api, made: Object) -> int:
    """Prints what it writes until it has ended: 0, or 1 for an end that is none of success. Ctrl-C leaves it running."""
    from cli.following import Following

    name, where = made["metadata"]["name"], made["metadata"]["namespace"]
    for part in Following(api, name, where, {}, say=lambda text: click.echo(f"-- {text} --", err=True)).job():
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
    found = api.get(jobs_path(where, name))
    if found["status"]["phase"] != "Succeeded":
        click.echo(f"job/{name}: {found['status']['phase']}: {found['status'].get('message')}", err=True)
    return Exit.OK if found["status"]["phase"] == "Succeeded" else Exit.ERROR


HOLD = ("sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait")
"""What an interactive job runs while its user works beside it."""


@click.command(
    context_settings={"allow_interspersed_args": False},
    epilog="""\b
Examples:
  muster run -it -g h100:1 -- bash
  muster run -g h100:8 -- nvidia-smi
  muster run -g a100:1 --forward 8888 -- jupyter lab --port 8888""",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on.")
@click.option("-t", "--tty", "terminal", is_flag=True, help="Give the command a terminal.")
@click.option("--forward", type=click.IntRange(1, 65535), metavar="PORT", help="Reach this port of it here meanwhile.")
@click.option(
    "--patience",
    metavar="DURATION",
    default="never",
    show_default=True,
    help="Give up when it has not started by then.",
)
@_shape
@options.namespace
def run(
    command: tuple[str, ...], stdin: bool, terminal: bool, forward: int | None, patience: str, name: str | None,
    env: tuple[str, ...], labels: tuple[str, ...], namespace: str, **shape: Any,
) -> int:  # fmt: skip
    """Run a command on the cluster as if it were here: wait for room, run it, give the room back.

    It exits as the command does."""
    from muster.quantity import parse_duration

    if terminal and not (sys.stdin.isatty() or sys.stdout.isatty()):
        raise Failure("-t needs a terminal here", code=Exit.USAGE, hint="leave out -t to use pipes")
    try:
        limit = None if patience == "never" else parse_duration(patience)
    except ValueError as error:
        raise Failure(f"--patience: {error}", code=Exit.USAGE) from None
    manifest = oneliners.job(
        HOLD, name=name or "run", namespace=namespace, workdir=os.getcwd(),
        env=oneliners.pairs(env, "-e", os.environ), labels=oneliners.pairs(labels, "-l", {}) | {"muster.dev/interactive": "true"}, **shape,
    )  # fmt: skip
    api = connect()
    made = create(api, manifest, fixed=name is not None)
    own = made["metadata"]["name"]
    try:
        _wait_for_room(api, namespace, own, limit)
        return _beside(namespace, own, command, stdin, terminal, forward)
    finally:
        api.act("Job", own, "cancel", namespace)


def _wait_for_room(api: Api, namespace: str, name: str, limit: float | None) -> None:
    began, told = clock.monotonic(), ""
    while True:
        found = api.get(jobs_path(namespace, name))
        status = found["status"]
        if status["phase"] == "Running":
            return
        if status["phase"] in ENDED:
            raise Failure(f"job/{name} ended before it ran: {status.get('message')}")
        if limit is not None and clock.monotonic() - began > limit:
            raise Failure(f"job/{name} has not started: {status.get('message')}", code=Exit.TIMEOUT)
        words = f"{status['phase']}: {status.get('message') or ''}".strip(": ")
        if status["phase"] == "Queued" and clock.monotonic() - began > 2 and words != told:
            click.echo(f"-- {words} --", err=True)
            told = words
        clock.sleep(0.2)


def _beside(
    namespace: str, name: str, command: tuple[str, ...], stdin: bool, terminal: bool, forward: int | None
) -> int:
    from cli import talking
    from cli.api import client_of
    from muster.client import path_of

    if forward:
        import subprocess

        words = [sys.executable, "-P", "-m", "cli.main", "port-forward", "-n", namespace, name, str(forward)]
        beside = subprocess.Popen(words)
    columns, rows = shutil.get_terminal_size()
    query: Object = {"stdin": stdin, "tty": terminal, "columns": columns, "rows": rows, "command": command}
    if terminal:
        query["term"] = options.terminal_kind()
    try:
        with talking.session(client_of(), f"{path_of('Job', name, namespace)}/exec", **query) as socket:
            return talking.Console(socket, interactive=stdin, terminal=terminal).run()
    finally:
        if forward:
            beside.terminate()
            beside.wait()
