"""Options that many verbs share."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from cli.output import FORMATS

F = TypeVar("F", bound=Callable[..., Any])


def default_namespace() -> str:
    """`MUSTER_NAMESPACE`, else that of the context in use, else `default`."""
    if os.environ.get("MUSTER_NAMESPACE"):
        return os.environ["MUSTER_NAMESPACE"]
    if os.environ.get("MUSTER_SERVER") or (os.environ.get("MUSTER_DATA_DIR") and not os.environ.get("MUSTER_CONTEXT")):
        return "default"
    from muster import contexts

    context = contexts.chosen(os.environ, strict=False)
    return context.namespace if context is not None else "default"


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
