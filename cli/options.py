"""Options that many verbs share."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from cli.output import FORMATS

F = TypeVar("F", bound=Callable[..., Any])


def default_namespace() -> str:
    """`MUSTER_NAMESPACE`, else `default`."""
    return os.environ.get("MUSTER_NAMESPACE") or "default"


def terminal_kind() -> str:
    return os.environ.get("TERM") or "xterm"


def namespace(function: F) -> F:
    option = click.option(
        "-n", "--namespace", default=default_namespace, metavar="NAMESPACE", help="The project (MUSTER_NAMESPACE)."
    )
    return option(function)


def output(function: F) -> F:
    option = click.option(
        "-o", "--output", "form", type=click.Choice(FORMATS), default="table", help="How it is printed."
    )
    return option(function)
