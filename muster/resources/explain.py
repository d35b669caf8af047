"""What every field of a manifest means, read from the models: for `muster explain` and the tables of the docs."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from muster.problems import nearest
from muster.resources.mutability import when
from muster.resources.parse import KINDS

_SERVERS = ("apiVersion", "kind")

BEGIN = "<!-- made by `python -m muster.resources.explain`: begin -->\n"
END = "\n<!-- end -->"
"""Around the table in the docs."""


class Field(Struct, frozen=True, kw_only=True):
    """`type` and `default` as people write them. `inner`: it has fields of its own. `list`: there may be several."""

    path: str
    type: str
    default: str = ""
    required: bool = False
    about: str = ""
    allowed: tuple[str, ...] = ()
    inner: bool = False
    several: bool = False
    when: str = ""


def fields(kind: str) -> Iterator[Field]:
    """All fields of a kind with those inside them, in the order of the models. Raises KeyError for an unknown kind."""
    schema = KINDS[kind].model_json_schema(by_alias=True)
    yield from _inside(schema, schema, "", kind)


def find(words: str) -> list[Field]:
    """The field that `job.spec.topology` names and those directly inside it. Raises LookupError with what was meant."""
    name, _, path = words.partition(".")
    kinds = {kind.lower(): kind for kind in KINDS}
    kind = (
        kinds.get(name.lower())
        or kinds.get(name.lower().removesuffix("es"))
        or kinds.get(name.lower().removesuffix("s"))
    )
    if kind is None:
        raise LookupError(_unknown(f"there is no kind {name!r}", name, list(KINDS)))
    every = list(fields(kind))
    depth = path.count(".") + 1 if path else 0
    if path and path not in {one.path for one in every}:
        known = [one.path for one in every]
        raise LookupError(_unknown(f"{kind} has no field {path!r}", path, known))
    return [one for one in every if one.path == path or (_under(one.path, path) and one.path.count(".") == depth)]


def table(kind: str, prefix: str = "spec") -> str:
    """The Markdown table of the docs."""
    rows = ["| field | default | changes | |", "| --- | --- | --- | --- |"]
    for one in fields(kind):
        if _under(one.path, prefix):
            name = one.path.removeprefix(prefix + ".") + ("[]" if one.several and one.inner else "")
            default = "required" if one.required else f"`{one.default}`" if one.default else ""
            rows.append(f"| `{name}` | {default} | {one.when} | {_line(one)} |")
    return "\n".join(rows)


def _line(one: Field) -> str:
    allowed = f" ({', '.join(f'`{word}`' for word in one.allowed)})" if one.allowed else ""
    return (one.about + allowed).replace("|", "\\|")


def _inside(root: dict[str, Any], schema: dict[str, Any], path: str, kind: str) -> Iterator[Field]:
    required = set(schema.get("required") or ())
    for name, raw in (schema.get("properties") or {}).items():
        if not path and name in _SERVERS:
            continue
        own = f"{path}.{name}" if path else name
        one = _resolved(root, raw)
        inner, several = _inner(root, one)
        yield Field(
            path=own,
            type=_type(root, one),
            default=_default(raw),
            required=name in required,
            about=" ".join(str(raw.get("description") or one.get("description") or "").split()),
            allowed=tuple(str(word) for word in one.get("enum") or ()),
            inner=inner is not None,
            several=several,
            when=str(when(own)) if kind == "Job" and path else "",
        )
        if inner is not None:
            yield from _inside(root, inner, own, kind)


def _resolved(root: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Without references, and without the null of what may be left out."""
    if "$ref" in schema:
        found = root["$defs"][schema["$ref"].rpartition("/")[2]]
        return {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    options = [one for one in schema.get("anyOf") or () if one.get("type") != "null"]
    if len(options) == 1:
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        return {**_resolved(root, options[0]), **rest}
    return schema


def _inner(root: dict[str, Any], schema: dict[str, Any]) -> tuple[dict[str, Any] | None, bool]:
    if schema.get("properties"):
        return schema, False
    if schema.get("type") == "array":
        item = _resolved(root, schema.get("items") or {})
        return (item if item.get("properties") else None), True
    return None, False


def _type(root: dict[str, Any], schema: dict[str, Any]) -> str:
    if schema.get("properties"):
        return "mapping"
    match schema.get("type"):
        case "array":
            return f"list of {_type(root, _resolved(root, schema.get('items') or {}))}"
        case "object":
            value = schema.get("additionalProperties")
            return f"mapping to {_type(root, _resolved(root, value))}" if isinstance(value, dict) else "mapping"
        case "integer":
            low, high = schema.get("minimum"), schema.get("maximum")
            return "number" if low is None else f"number from {low}" + (f" to {high}" if high is not None else "")
        case "boolean":
            return "true or false"
    return "text"


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    if value is None or value in ({}, []) or isinstance(value, dict):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)


def _under(path: str, prefix: str) -> bool:
    return path.startswith(prefix + ".") if prefix else True


def _unknown(said: str, word: str, known: list[str]) -> str:
    near = nearest(word, known)
    return f'{said}; did you mean "{near}"?' if near else f"{said}; known: {', '.join(known[:12])}"


if __name__ == "__main__":
    import sys

    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        before, _, rest = text.partition(BEGIN)
        with open(path, "w", encoding="utf-8") as file:
            file.write(before + BEGIN + table("Job") + END + rest.partition(END)[2])
