"""What a worker runs: its words and its environment, checked alike wherever they may stand."""

import re
from typing import Annotated

from pydantic import AfterValidator


def _words(value: list[str]) -> list[str]:
    if not value or not value[0]:
        raise ValueError("expected at least the name of a program")
    return value


def _environment(value: dict[str, str]) -> dict[str, str]:
    for name, text in value.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"{name!r} is not a name of an environment variable")
        if "\0" in text:
            raise ValueError(f"the value of {name} contains a zero byte")
    return value


Command = Annotated[list[str], AfterValidator(_words)]
Environment = Annotated[dict[str, str], AfterValidator(_environment)]
