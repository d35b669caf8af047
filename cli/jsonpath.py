"""Templates as `kubectl -o jsonpath` has them: `{.items[*].metadata.name}`, `{range .items[*]}{.a}{"\\n"}{end}`.

Of the language (kubernetes.io/docs/reference/kubectl/jsonpath): fields, `['a.b']`, indexes, slices, `*`, `..name`, lists of
indexes, filters `[?(@.x=="y")]`, `range`/`end`, and texts in quotes.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from cli.errors import Exit, Failure

Step = tuple[str, Any]

_FILTER = re.compile(
    r"""\?\(\s*@(?P<path>[^=!<>]*?)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>"[^"]*"|'[^']*'|[^)\s]+)\s*)?\)"""
)
_NAME = re.compile(r"[A-Za-z0-9_$-]+(?:\\\.[A-Za-z0-9_/-]+)*")


def render(template: str, document: Any) -> str:
    """Raises Failure where the template is none."""
    text = template if "{" in template else f"{{{template if template.startswith('.') else '.' + template}}}"
    out, rest = _block(list(_pieces(text)), document, document)
    if rest:
        raise _wrong(template, "{end} without {range}")
    return out


def find(path: str, document: Any) -> list[Any]:
    """The values of one path, such as `.status.phase`. Raises Failure."""
    return list(_walk(_steps(path.strip().strip("{}")), document))


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """("text", ...) and ("code", ...)."""
    at = 0
    while at < len(text):
        begin = text.find("{", at)
        if begin < 0:
            yield "text", text[at:]
            return
        if begin > at:
            yield "text", text[at:begin]
        end, quote = begin + 1, ""
        while end < len(text) and (quote or text[end] != "}"):
            if quote and text[end] == "\\":
                end += 1
            elif quote:
                quote = "" if text[end] == quote else quote
            elif text[end] in "\"'":
                quote = text[end]
            end += 1
        if end >= len(text):
            raise _wrong(text, "a { is not closed")
        yield "code", text[begin + 1 : end].strip()
        at = end + 1


def _block(pieces: list[tuple[str, str]], here: Any, root: Any) -> tuple[str, list[tuple[str, str]]]:
    """What the pieces give up to {end}, and those from {end} on."""
    out: list[str] = []
    while pieces:
        kind, text = pieces[0]
        if kind == "code" and text == "end":
            return "".join(out), pieces
        pieces = pieces[1:]
        if kind == "text":
            out.append(text)
        elif text[:1] in "\"'" and text:
            out.append(_unquoted(text))
        elif text.startswith("range "):
            body = pieces
            for item in _walk(_steps(text[6:].strip()), here):
                made, pieces = _block(body, item, root)
                out.append(made)
            pieces = _behind(body, text)
        else:
            steps = _steps(text)
            out.append(" ".join(_shown(value) for value in _walk(steps, root if text.startswith("$") else here)))
    return "".join(out), []


def _behind(pieces: list[tuple[str, str]], text: str) -> list[tuple[str, str]]:
    """The pieces behind the {end} that belongs to a {range}."""
    depth = 1
    for at, (kind, code) in enumerate(pieces):
        depth += kind == "code" and code.startswith("range ")
        depth -= kind == "code" and code == "end"
        if not depth:
            return pieces[at + 1 :]
    raise _wrong(text, "{range} without {end}")


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    return inner.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').replace("\\\\", "\\")


def _steps(path: str) -> list[Step]:
    found: list[Step] = []
    text, at = path.removeprefix("$").removeprefix("@"), 0
    while at < len(text):
        if text.startswith("..", at):
            name, at = _named(text, at + 2, path)
            found.append(("deep", name))
        elif text[at] == ".":
            if at + 1 == len(text) or text[at + 1] == "[":
                at += 1
                continue
            if text[at + 1] == "*":
                found.append(("all", None))
                at += 2
                continue
            name, at = _named(text, at + 1, path)
            found.append(("field", name))
        elif text[at] == "[":
            end = _closing(text, at, path)
            found.append(_bracket(text[at + 1 : end].strip(), path))
            at = end + 1
        else:
            name, at = _named(text, at, path)
            found.append(("field", name))
    return found


def _named(text: str, at: int, path: str) -> tuple[str, int]:
    match = _NAME.match(text, at)
    if not match:
        raise _wrong(path, f"a name is missing at {text[at:]!r}")
    return match[0].replace("\\.", "."), match.end()


def _closing(text: str, at: int, path: str) -> int:
    quote, depth = "", 0
    for end in range(at, len(text)):
        char = text[end]
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            depth += (char == "[") - (char == "]")
            if not depth:
                return end
    raise _wrong(path, "a [ is not closed")


def _bracket(inside: str, path: str) -> Step:
    if inside == "*":
        return "all", None
    if inside[:1] in ("'", '"'):
        return "field", inside[1:-1]
    if match := _FILTER.fullmatch(inside):
        value = match["value"]
        wanted = None if value is None else value[1:-1] if value[:1] in "\"'" else _number(value)
        return "filter", (_steps(match["path"]), match["op"], wanted)
    if re.fullmatch(r"-?\d*:-?\d*(:-?\d+)?", inside):
        return "slice", slice(*(int(part) if part else None for part in inside.split(":")))
    if re.fullmatch(r"-?\d+(,\s*-?\d+)*", inside):
        return "indexes", [int(part) for part in inside.split(",")]
    raise _wrong(path, f"[{inside}] is not understood")


def _number(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _walk(steps: Sequence[Step], here: Any) -> Iterator[Any]:
    if not steps:
        yield here
        return
    for value in _next(steps[0], here):
        yield from _walk(steps[1:], value)


def _next(step: Step, here: Any) -> Iterator[Any]:
    kind, what = step
    match kind:
        case "field" if isinstance(here, dict) and what in here:
            yield here[what]
        case "all" if isinstance(here, dict | list):
            yield from here.values() if isinstance(here, dict) else here
        case "indexes" if isinstance(here, list):
            yield from (here[at] for at in what if -len(here) <= at < len(here))
        case "slice" if isinstance(here, list):
            yield from here[what]
        case "filter" if isinstance(here, list):
            yield from (one for one in here if _holds(what, one))
        case "deep":
            yield from _deep(what, here)


def _deep(name: str, here: Any) -> Iterator[Any]:
    if isinstance(here, dict):
        if name in here:
            yield here[name]
        for value in here.values():
            yield from _deep(name, value)
    elif isinstance(here, list):
        for value in here:
            yield from _deep(name, value)


def _holds(condition: tuple[list[Step], str | None, Any], one: Any) -> bool:
    steps, op, wanted = condition
    found = list(_walk(steps, one))
    if op is None:
        return bool(found)
    try:
        return any(_COMPARE[op](value, wanted) for value in found)
    except TypeError:
        return False


_COMPARE = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _wrong(template: str, what: str) -> Failure:
    return Failure(f"jsonpath {template!r}: {what}", code=Exit.USAGE, hint="e.g. -o jsonpath='{.status.phase}'")
