"""`muster delete`."""

import click
from click.core import ParameterSource

from cli import completing, options
from cli.api import connect, jobs_path, path_to
from cli.errors import Exit, Failure
from cli.names import DECLARED, JOB, targets
from cli.output import say


@click.command(epilog="Example:  muster delete job ddp-digits")
@click.argument("what", nargs=-1, shell_complete=completing.things, metavar="[job|queue|... NAME...]")
@click.option("-f", "--filename", "files", multiple=True, metavar="FILE|DIR|-", help="What these manifests describe.")
@options.namespace
def delete(what: tuple[str, ...], files: tuple[str, ...], namespace: str) -> None:
    """Cancel live jobs, remove finished ones with all that is known of them; remove queues,
    priority classes, reservations and maintenance windows."""
    if bool(what) == bool(files):
        raise Failure("say either what or -f FILE", code=Exit.USAGE, hint="muster delete job NAME")
    api, failures = connect(), list[Failure]()
    for path, label in _from_files(files, namespace) if files else _named(what, namespace):
        try:
            phase = (api.delete(path).get("status") or {}).get("phase")
        except Failure as failure:
            if failure.code is Exit.UNREACHABLE:
                raise
            failures.append(failure)
            click.echo("\n".join(failure.lines()), err=True)
            continue
        live = label.startswith("job/") and phase not in ("Succeeded", "Failed", "Cancelled")
        say(f"{label} {'will be cancelled' if live else 'deleted'}")
    if failures:
        click.get_current_context().exit(failures[0].code)


def _named(what: tuple[str, ...], namespace: str) -> list[tuple[str, str]]:
    return [
        (jobs_path(namespace, name) if kind is JOB else path_to(kind.plural, name), f"{kind.word}/{name}")
        for kind, name in targets(what, DECLARED)
    ]


def _from_files(files: tuple[str, ...], namespace: str) -> list[tuple[str, str]]:
    from cli.manifests import load
    from cli.verbs.apply import place

    given = click.get_current_context().get_parameter_source("namespace") is ParameterSource.COMMANDLINE
    explicit = namespace if given else None  # one that contradicts a manifest is refused, not ignored
    return [(place(one, explicit)[0], f"{one.kind.lower()}/{one.name}") for one in load(files)]
