"""`muster apply`."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import click

from cli import options
from cli.api import Api, Object, connect, jobs_path, path_to
from cli.errors import Exit, Failure, suggestion
from cli.manifests import Manifest, load
from cli.names import DECLARED
from cli.output import FORMATS, as_json, as_yaml, say

KINDS = {one.kind: one for one in DECLARED}
LAUNCH: Final = "launch"
TOGETHER: Final = 500
"""Jobs of one request at most: what became of them is told before the next are sent."""


class Asked(NamedTuple):
    manifest: Manifest
    path: str
    namespace: str

    @property
    def label(self) -> str:
        return f"{self.manifest.kind.lower()}/{self.manifest.name}"

    @property
    def document(self) -> Object:
        document = self.manifest.document
        if not self.namespace:
            return document
        return {**document, "metadata": {**document["metadata"], "namespace": self.namespace}}


@click.command(
    epilog="""\b
Examples:
  muster apply -f job.yaml
  muster apply -f queues/ -f jobs/
  muster apply -f job.yaml --dry-run=server -o launch
  sed s/42/43/ job.yaml | muster apply -f -"""
)
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="FILE|DIR|-", help="Repeatable.")
@click.option("-n", "--namespace", metavar="NAMESPACE", help="Of manifests that name none.")
@click.option(
    "--dry-run",
    "dry",
    is_flag=False,
    flag_value="server",
    type=click.Choice(["server"]),
    help="Let the server check everything, and write nothing.",
)
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice([*FORMATS, LAUNCH]),
    default="table",
    help="How it is printed; launch, in a dry run: what each rank would get.",
)
def apply(files: tuple[str, ...], namespace: str | None, dry: str | None, form: str) -> None:
    """Create or change what manifests describe. Relative paths in a manifest are relative to its folder."""
    manifests, dry_run = load(files), dry is not None
    if form == LAUNCH and not dry_run:
        raise click.UsageError("-o launch goes with --dry-run=server")
    asked = [Asked(manifest, *place(manifest, namespace)) for manifest in manifests]
    api, failures = connect(), list[Failure]()
    for some in _together(asked):
        made = _made(api, some, dry_run) if len(some) > 1 and form != LAUNCH else [None]
        for one, answer in zip(some, made, strict=True):
            try:
                _tell(
                    one, *((answer, "created") if answer else _sent(api, one, dry_run, form == LAUNCH)), form, dry_run
                )
            except Failure as failure:
                if failure.code is Exit.UNREACHABLE:
                    raise
                failures.append(failure)
                message = f"{one.manifest.source}: {one.label}: {failure.message}"
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


def _together(asked: Sequence[Asked]) -> Iterator[list[Asked]]:
    """What goes in one request, in the given order: jobs of one namespace that stand one after the other."""
    some: list[Asked] = []
    for one in asked:
        if some and not (_may_join(some[-1], one) and len(some) < TOGETHER):
            yield some
            some = []
        some.append(one)
    yield some


def _may_join(before: Asked, one: Asked) -> bool:
    """A manifest that means one very object, or one very version of it, goes alone."""
    bound = {"uid", "resourceVersion"}
    return (
        before.manifest.kind == one.manifest.kind == "Job"
        and before.namespace == one.namespace
        and not any(bound & each.manifest.document["metadata"].keys() for each in (before, one))
    )


def _made(api: Api, some: Sequence[Asked], dry_run: bool) -> list[Object | None]:
    """The jobs that are new, made in few requests; None for each that is live already or was refused: it is applied
    by itself then, which tells why. So is each when the list is refused whole."""
    try:
        results = api.create_all([one.document for one in some], some[0].namespace, dry_run=dry_run)
    except Failure as failure:
        if failure.code is Exit.UNREACHABLE:
            raise
        return [None] * len(some)
    return [one.get("object") for one in results]


def _sent(api: Api, one: Asked, dry_run: bool, launch: bool) -> tuple[Object, str]:
    return api.put(one.path, one.document, dry_run=dry_run, launch=launch and one.manifest.kind == "Job")


def _tell(one: Asked, answer: dict[str, Any], result: str, form: str, dry_run: bool) -> None:
    if form == "json":
        say(as_json(answer))
    elif form in ("yaml", LAUNCH):
        say("---\n" + as_yaml(answer))
    elif form == "name":
        say(one.label)
    else:
        say(f"{one.label} {result}{' (dry run)' if dry_run else ''}")
    for warning in answer.get("status", {}).get("warnings") or ():
        click.echo(f"warning: {one.label}: {warning}", err=True)
