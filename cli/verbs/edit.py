"""`muster create`, `edit`, `patch`, `diff`, `label`, `annotate`, `scale`, `priority`."""

import difflib
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import click

from cli import editing, options
from cli.api import NotThere, connect
from cli.errors import Exit, Failure
from cli.manifests import ManifestError, documents, load
from cli.names import DECLARED, JOB, job_name, targets
from cli.output import as_yaml, colours, say
from cli.verbs.apply import place

Object = dict[str, Any]


@click.command(epilog="Example:  muster create -f job.yaml")
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="FILE|DIR|-", help="Repeatable.")
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Of manifests that name none.")
@click.option("--dry-run", is_flag=True, help="Let the server check everything, and write nothing.")
def create(files: tuple[str, ...], namespace: str | None, dry_run: bool) -> None:
    """Create what manifests describe; what is there already is refused, not changed."""
    api, failures = connect(), list[Failure]()
    for one in load(files):
        path, where = place(one, namespace)
        document = one.document | {"metadata": one.document["metadata"] | ({"namespace": where} if where else {})}
        try:
            api.post(path.rpartition("/")[0], document, **({"dryRun": True} if dry_run else {}))
        except Failure as failure:
            if failure.code is Exit.UNREACHABLE:
                raise
            failures.append(failure)
            told = Failure(
                f"{one.source}: {failure.message}", code=failure.code, details=failure.details, hint=failure.hint
            )
            click.echo("\n".join(told.lines()), err=True)
            continue
        say(f"{one.kind.lower()}/{one.name} created{' (dry run)' if dry_run else ''}")
    if failures:
        click.get_current_context().exit(failures[0].code)


@click.command(epilog="Example:  muster edit job ddp-digits")
@click.argument("what", nargs=-1, required=True, metavar="KIND NAME")
@options.namespace
def edit(what: tuple[str, ...], namespace: str) -> None:
    """Change one thing in your editor (EDITOR, else vi). What was wrong stays in the file, to be mended."""
    ((kind, name), *more) = targets(what, DECLARED)
    if more:
        raise Failure("one thing at a time", code=Exit.USAGE)
    api = connect()
    path = editing.path_of(kind, name, namespace)
    before = as_yaml(editing.manifest(api.get(path))) + "\n"
    file = Path(tempfile.mkstemp(prefix=f"muster-{name}-", suffix=".yaml")[1])
    file.write_text(before)
    editor = os.environ.get("MUSTER_EDITOR") or os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(editor), str(file)], check=False)
    except OSError as error:
        raise Failure(f"{editor}: {error.strerror}", hint="EDITOR names the editor") from None
    if done.returncode:
        raise Failure(
            f"{editor} ended with {done.returncode}; nothing was changed", details=[f"your text is in {file}"]
        )
    if file.read_text() == before:
        file.unlink()
        return say(f"{kind.word}/{name} unchanged")
    try:
        (changed,) = documents(file.read_bytes(), str(file), Path.cwd())
        _, result = api.put(path, changed.document)
    except ManifestError as error:
        raise Failure("nothing was changed: the text cannot be read", details=error.lines) from None
    except ValueError:
        raise Failure(f"nothing was changed: expected one document in {file}") from None
    except Failure as failure:
        details = [*failure.details, f"your text is in {file}"]
        raise Failure(failure.message, code=failure.code, details=details, hint=failure.hint) from None
    file.unlink()
    return say(f"{kind.word}/{name} {result}")


@click.command(epilog="""Example:  muster patch job sft -p '{"spec": {"timeLimit": "2h"}}'""")
@click.argument("what", nargs=-1, required=True, metavar="KIND NAME")
@click.option(
    "-p", "--patch", "text", required=True, metavar="JSON|YAML", help="A merge patch (RFC 7396): null takes away."
)
@click.option("--dry-run", is_flag=True, help="Let the server check everything, and write nothing.")
@options.namespace
def patch(what: tuple[str, ...], text: str, dry_run: bool, namespace: str) -> None:
    """Change some fields and leave the others as they are."""
    import yaml

    try:
        wanted = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Failure(f"the patch cannot be read: {' '.join(str(error).split())}", code=Exit.USAGE) from None
    if not isinstance(wanted, dict):
        raise Failure("the patch: expected a mapping, e.g. {spec: {suspend: true}}", code=Exit.USAGE)
    api = connect()
    for kind, name in targets(what, DECLARED):
        result = editing.change(api, kind, name, namespace, lambda one: editing.merged(one, wanted), dry_run=dry_run)
        say(f"{kind.word}/{name} {result}{' (dry run)' if dry_run else ''}")


@click.command(epilog="Example:  muster diff -f job.yaml")
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="FILE|DIR|-", help="Repeatable.")
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Of manifests that name none.")
def diff(files: tuple[str, ...], namespace: str | None) -> None:
    """Show what apply would change, as the server would have it. Exits with 1 when something differs."""
    api, differs = connect(), False
    for one in load(files):
        path, where = place(one, namespace)
        document = one.document | {"metadata": one.document["metadata"] | ({"namespace": where} if where else {})}
        try:
            now = as_yaml(_plain(api.get(path))).splitlines()
        except NotThere:
            now = []
        then = as_yaml(_plain(api.put(path, document, dry_run=True)[0])).splitlines()
        label = f"{one.kind.lower()}/{one.name}"
        for line in difflib.unified_diff(now, then, f"{label} (now)", f"{label} ({one.source})", lineterm=""):
            differs = True
            say(_painted(line))
    if differs:
        click.get_current_context().exit(1)


def _plain(found: Object) -> Object:
    made = editing.manifest(found)
    made["metadata"].pop("resourceVersion", None)
    return made


def _painted(line: str) -> str:
    colour = {"+": 32, "-": 31, "@": 36}.get(line[:1])
    return f"\x1b[{colour}m{line}\x1b[0m" if colour and colours() else line


def _marking(name: str, field: str, about: str) -> click.Command:
    @click.command(name, help=about, epilog=f"Example:  muster {name} job sft team=vision old-")
    @click.argument("what", nargs=-1, required=True, metavar="KIND NAME... KEY=VALUE|KEY-...")
    @click.option("--overwrite", is_flag=True, help="Replace values that are there.")
    @options.namespace
    def verb(what: tuple[str, ...], overwrite: bool, namespace: str) -> None:
        marks = tuple(word for word in what if "=" in word or word.endswith("-"))
        rest = tuple(word for word in what if word not in marks)
        if not marks:
            raise Failure("expected KEY=VALUE or KEY-", code=Exit.USAGE)
        api = connect()
        for kind, thing in targets(rest, (JOB,)):

            def by(one: Object) -> Object:
                return editing.labelled(one, marks, field, overwrite=overwrite)

            say(f"{kind.word}/{thing} {editing.change(api, kind, thing, namespace, by)}")

    return verb


label = _marking("label", "labels", "Set and take away labels of jobs.")
annotate = _marking("annotate", "annotations", "Set and take away annotations of jobs.")


@click.command(epilog="Example:  muster scale sft --workers 8")
@click.argument("job")
@click.option("--workers", type=click.IntRange(1), required=True, metavar="N", help="Workers of the gang.")
@options.namespace
def scale(job: str, workers: int, namespace: str) -> None:
    """Change the number of workers of a job: at once where it is elastic, else suspend it before."""
    name, api = job_name(job), connect()
    result = editing.change(api, JOB, name, namespace, lambda one: editing.merged(one, {"spec": {"workers": workers}}))
    say(f"job/{name} {result}")


@click.command(epilog="Example:  muster priority sft high")
@click.argument("job")
@click.argument("priority_class", metavar="CLASS")
@options.namespace
def priority(job: str, priority_class: str, namespace: str) -> None:
    """Change the priority class of a job; it takes effect at once."""
    name, api = job_name(job), connect()
    wanted = {"spec": {"priorityClass": priority_class}}
    say(f"job/{name} {editing.change(api, JOB, name, namespace, lambda one: editing.merged(one, wanted))}")
