"""From files, folders and standard input to documents: one file may hold several, and none may hurt."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from cli.errors import Failure

LIMIT: Final = 2**20
"""Bytes of one file; the API takes no larger body."""
DEPTH: Final = 32
NODES: Final = 50_000
SUFFIXES: Final = (".yaml", ".yml", ".json")

_Base: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Base):  # type: ignore[misc]
    """YAML as JSON has it: a date is a text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Manifest:
    """`source` is where it stands, e.g. `job.yaml:12`; `folder` is what relative paths in it are relative to."""

    document: dict[str, Any]
    source: str
    folder: Path

    @property
    def kind(self) -> str:
        return str(self.document["kind"])

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])


def load(paths: Iterable[str]) -> list[Manifest]:
    """All documents of these files, folders (not the folders in them) and `-`. Raises Failure with all that is wrong."""
    found: list[Manifest] = []
    wrong: list[str] = []
    for path in paths:
        for source, folder, data in _texts(path):
            try:
                found += documents(data, source, folder)
            except ManifestError as error:
                wrong += error.lines
    if wrong:
        raise Failure("nothing was sent: the manifests cannot be read", details=wrong)
    if not found:
        raise Failure(f"no manifest in {', '.join(paths)}")
    return found


class ManifestError(Exception):
    """What is wrong with a text; each line begins with its place."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


def documents(data: bytes, source: str, folder: Path) -> list[Manifest]:
    """The documents of one text, relative paths made absolute. Raises ManifestError."""
    if len(data) > LIMIT:
        raise ManifestError(f"{source}: larger than {LIMIT // 2**20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ManifestError(f"{source}: not UTF-8 text (byte {error.start})") from None
    try:
        made = list(_read(text, source, folder))
    except yaml.MarkedYAMLError as error:
        raise ManifestError(_yaml_error(error, source)) from None
    except yaml.YAMLError as error:
        raise ManifestError(f"{source}: {' '.join(str(error).split())}") from None
    except (ValueError, RecursionError) as error:  # e.g. a date that is none, an integer of 5000 digits
        raise ManifestError(f"{source}: {error}") from None
    return made


def _read(text: str, source: str, folder: Path) -> Iterator[Manifest]:
    wrong = []
    _harmless(text, source)
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            place = f"{source}:{node.start_mark.line + 1}"
            wrong += _duplicates(node, source)
            document = loader.construct_document(node)
            if document is None:
                continue
            if problem := _shape(document):
                wrong.append(f"{place}: {problem}")
            elif not wrong:
                yield Manifest(absolute(document, folder), place, folder)
    finally:
        loader.dispose()
    if wrong:
        raise ManifestError(*wrong)


def _harmless(text: str, source: str) -> None:
    """Before anything is built: neither deep nor aliased nor huge. An alias is refused as such, for a few of them can
    stand for more than any memory holds."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_Loader), start=1):
        where = f"{source}:{event.start_mark.line + 1 if event.start_mark else '?'}"
        if isinstance(event, yaml.AliasEvent):
            raise ManifestError(f"{where}: aliases (*{event.anchor}) are not taken here; write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH:
            raise ManifestError(f"{where}: nested more than {DEPTH} deep")
        if count > NODES:
            raise ManifestError(f"{where}: more than {NODES} values")


def _duplicates(node: Any, source: str) -> list[str]:
    """Keys that stand twice in one mapping: YAML readers keep the last one silently."""
    found: list[tuple[int, str]] = []
    todo = [node]
    while todo:
        one = todo.pop()
        if isinstance(one, yaml.SequenceNode):
            todo += one.value
        elif isinstance(one, yaml.MappingNode):
            seen: dict[tuple[str, str], int] = {}
            for key, value in one.value:
                todo += [key, value]
                if not isinstance(key, yaml.ScalarNode):
                    continue
                line = key.start_mark.line + 1
                if first := seen.get((key.tag, key.value)):
                    found.append((line, f"{source}:{line}: the key {key.value!r} stands twice (first in line {first})"))
                seen.setdefault((key.tag, key.value), line)
    return [told for _, told in sorted(found)]


def _shape(document: object) -> str | None:
    """What is so wrong that the document cannot be sent; the rest the server says."""
    if not isinstance(document, dict):
        return "expected a mapping with apiVersion, kind, metadata and spec"
    if not isinstance(document.get("kind"), str):
        return "kind: required, e.g. Job"
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return "metadata.name: required, a text"
    if not isinstance(metadata.get("namespace", ""), str):
        return "metadata.namespace: expected a text"
    try:
        json.dumps(document, allow_nan=False)
    except (TypeError, ValueError) as error:
        return f"holds a value that JSON has not: {error}"
    return None


def absolute(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The document with `workdir` and `checkpoint.directory` made absolute against `folder`."""
    spec = document.get("spec")
    if document.get("kind") != "Job" or not isinstance(spec, dict):
        return document
    spec = {**spec, "workdir": _joined(spec.get("workdir", "."), folder)}
    checkpoint = spec.get("checkpoint")
    if isinstance(checkpoint, dict) and checkpoint.get("directory"):
        spec["checkpoint"] = {**checkpoint, "directory": _joined(checkpoint["directory"], folder)}
    return {**document, "spec": spec}


def _joined(path: object, folder: Path) -> object:
    """What is no text stays as it is: the server says so."""
    return os.path.normpath(folder / path) if isinstance(path, str) and path and "\0" not in path else path


def _yaml_error(error: yaml.MarkedYAMLError, source: str) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
    context = f" ({error.context})" if error.context else ""
    hint = "; indent with spaces, not tabs" if "tab" in (error.problem or "") or "\\t" in (error.problem or "") else ""
    return f"{place}: {error.problem}{context}{hint}"


def _texts(path: str) -> Iterator[tuple[str, Path, bytes]]:
    if path == "-":
        yield "stdin", Path.cwd(), sys.stdin.buffer.read(LIMIT + 1)
        return
    given = Path(path)
    try:
        if given.is_dir():
            names = sorted(one for one in given.iterdir() if one.suffix in SUFFIXES and one.is_file())
        else:
            names = [given]
        for one in names:
            with one.open("rb") as file:
                data = file.read(LIMIT + 1)
            yield str(one), Path(os.path.abspath(one)).parent, data
    except OSError as error:
        raise Failure(f"{error.filename or path}: {error.strerror}") from None
