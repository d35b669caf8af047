"""The forms that `-o` gives to objects beside tables: JSON, YAML, names, jsonpath, custom columns."""

from collections.abc import Sequence
from typing import Any, Final

import click

from cli import jsonpath
from cli.errors import Exit, Failure, suggestion
from cli.output import FORMATS, Column, moment, table

Object = dict[str, Any]
WITH_VALUE: Final = ("jsonpath", "custom-columns")


class Form(click.ParamType[str]):
    """`table`, `wide`, `json`, `yaml`, `name`, `jsonpath=TEMPLATE`, `custom-columns=TITLE:PATH,...`."""

    name = "form"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if text in FORMATS or text.partition("=")[0] in WITH_VALUE:
            if text in WITH_VALUE or text.endswith("="):
                raise Failure(
                    f"-o {text}: the template is missing", code=Exit.USAGE, hint=f"e.g. -o {_EXAMPLE[text.rstrip('=')]}"
                )
            return text
        known = [*FORMATS, *(f"{one}=..." for one in WITH_VALUE)]
        hint = suggestion(text.partition("=")[0], [*FORMATS, *WITH_VALUE]) or f"forms: {', '.join(known)}"
        raise Failure(f"-o {text} is not a form of output", code=Exit.USAGE, hint=hint)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return "wide|json|yaml|name|jsonpath=|custom-columns="


_EXAMPLE = {"jsonpath": "jsonpath='{.status.phase}'", "custom-columns": "custom-columns=NAME:.metadata.name"}


def columns(form: str) -> list[Column]:
    """Of `custom-columns=NAME:.metadata.name,STEP:.status.progress.step`. Raises Failure."""
    made = []
    for part in form.partition("=")[2].split(","):
        title, colon, path = part.partition(":")
        if not colon or not title or not path:
            raise Failure(
                f"custom-columns: expected TITLE:PATH, found {part!r}",
                code=Exit.USAGE,
                hint=f"e.g. -o {_EXAMPLE['custom-columns']}",
            )
        made.append(Column(title, lambda one, path=path: _joined(jsonpath.find(path, one))))  # type: ignore[misc]
    return made


def _joined(values: list[Any]) -> str:
    return ",".join(str(value) for value in values) if values else "<none>"


def custom(form: str, found: Sequence[Object], *, headers: bool) -> str:
    return table(columns(form), found, headers=headers, width=None)


def in_order(found: list[Object], path: str) -> list[Object]:
    """By the value of a path: numbers as numbers, times as times, what has none first."""

    def key(one: Object) -> tuple[int, float, str]:
        values = jsonpath.find(path, one)
        if not values or values[0] is None:
            return 0, 0.0, ""
        value = values[0]
        if isinstance(value, int | float):
            return 1, float(value), ""
        try:
            return 1, moment(str(value)) or 0.0, ""
        except ValueError:
            return 2, 0.0, str(value)

    return sorted(found, key=key)
