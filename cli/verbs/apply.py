"""`muster apply`."""

import click

from cli import options
from cli.api import Api, connect, jobs_path, path_to
from cli.errors import Exit, Failure, suggestion
from cli.manifests import Manifest, load
from cli.names import DECLARED
from cli.output import as_json, as_yaml, say

KINDS = {one.kind: one for one in DECLARED}


@click.command(
    epilog="""\b
Examples:
  muster apply -f job.yaml
  muster apply -f queues/ -f jobs/
  sed s/42/43/ job.yaml | muster apply -f -"""
)
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="FILE|DIR|-", help="Repeatable.")
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Of manifests that name none.")
@click.option("--dry-run", is_flag=True, help="Let the server check everything, and write nothing.")
@options.output
def apply(files: tuple[str, ...], namespace: str | None, dry_run: bool, form: str) -> None:
    """Create or change what manifests describe. Relative paths in a manifest are relative to its folder."""
    manifests = load(files)
    places = [place(manifest, namespace) for manifest in manifests]
    api, failures = connect(), list[Failure]()
    for manifest, (path, where) in zip(manifests, places, strict=True):
        try:
            _send(api, manifest, path, where, form, dry_run)
        except Failure as failure:
            if failure.code is Exit.UNREACHABLE:
                raise
            failures.append(failure)
            message = f"{manifest.source}: {manifest.kind.lower()}/{manifest.name}: {failure.message}"
            told = Failure(message, code=failure.code, details=failure.details, hint=failure.hint)
            click.echo("\n".join(told.lines()), err=True)
    if failures:
        click.get_current_context().exit(failures[0].code)


def place(manifest: Manifest, namespace: str | None) -> tuple[str, str]:
    """Path and namespace of what the manifest describes. Raises Failure."""
    if manifest.kind not in KINDS:
        hint = suggestion(manifest.kind, list(KINDS)) or f"kinds: {', '.join(KINDS)}"
        raise Failure(f'{manifest.source}: unknown kind "{manifest.kind}"', code=Exit.REFUSED, hint=hint)
    kind = KINDS[manifest.kind]
    if not kind.namespaced:
        return path_to(kind.plural, manifest.name), ""
    own = manifest.document["metadata"].get("namespace")
    if own and namespace and own != namespace:
        raise Failure(
            f"{manifest.source}: the manifest says namespace {own}, the command says {namespace}", code=Exit.USAGE
        )
    where = str(own or namespace or options.default_namespace())
    return jobs_path(where, manifest.name), where


def _send(api: Api, manifest: Manifest, path: str, namespace: str, form: str, dry_run: bool) -> None:
    document = manifest.document
    if namespace:
        document = {**document, "metadata": {**document["metadata"], "namespace": namespace}}
    answer, result = api.put(path, document, dry_run=dry_run)
    label = f"{manifest.kind.lower()}/{manifest.name}"
    if form == "json":
        say(as_json(answer))
    elif form == "yaml":
        say("---\n" + as_yaml(answer))
    elif form == "name":
        say(label)
    else:
        say(f"{label} {result}{' (dry run)' if dry_run else ''}")
    for warning in answer.get("status", {}).get("warnings") or ():
        click.echo(f"warning: {label}: {warning}", err=True)
