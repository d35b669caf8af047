"""Changing what is there: read it, change it, apply it, unless somebody else was faster."""

from collections.abc import Callable
from typing import Any, Final

from cli.api import Api, jobs_path, path_to
from cli.errors import Exit, Failure
from cli.names import JOB, Resource

Object = dict[str, Any]
OWN: Final = ("uid", "generation", "createdAt", "number")
"""Of the server."""


def path_of(kind: Resource, name: str, namespace: str) -> str:
    return jobs_path(namespace, name) if kind is JOB else path_to(kind.plural, name)


def manifest(found: Object) -> Object:
    """What of an object people write; with the version, so that a change meanwhile is noticed."""
    metadata = {key: value for key, value in found["metadata"].items() if key not in OWN and value not in ({}, None)}
    return {"apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": metadata, "spec": found["spec"]}


def change(
    api: Api, kind: Resource, name: str, namespace: str, by: Callable[[Object], Object], *, dry_run: bool = False
) -> str:
    """`created`, `configured` or `unchanged`. Raises Failure, also when it was changed meanwhile."""
    path = path_of(kind, name, namespace)
    _, result = api.put(path, by(manifest(api.get(path))), dry_run=dry_run)
    return result


def merged(target: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    base = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            base.pop(key, None)
        else:
            base[key] = merged(base.get(key), value)
    return base


def labelled(document: Object, words: tuple[str, ...], field: str, *, overwrite: bool) -> Object:
    """`KEY=VALUE` sets, `KEY-` takes away. Raises Failure."""
    found = dict(document["metadata"].get(field) or {})
    for word in words:
        key, equals, value = word.partition("=")
        if not equals and word.endswith("-"):
            found.pop(word[:-1], None)
        elif not equals or not key:
            raise Failure(f"{word!r}: expected KEY=VALUE or KEY-", code=Exit.USAGE)
        elif not overwrite and found.get(key, value) != value:
            raise Failure(f"{key} is {found[key]!r} already", code=Exit.REFUSED, hint="--overwrite replaces it")
        else:
            found[key] = value
    return document | {"metadata": document["metadata"] | {field: found}}
