"""The user's program as an argument list that an agent may complete."""

from typing import Any, Final

SCRIPT: Final = ("/bin/sh", "%{dir}/script")
"""How a script is run; its text lies there."""


def literal(text: str) -> str:
    """The user's text in a template: nothing in it is a placeholder."""
    return text.replace("%{", "%%{")


def program(spec: dict[str, Any]) -> tuple[str, ...]:
    """The command, or the shell with the script."""
    if spec.get("script") is not None:
        return SCRIPT
    return tuple(literal(word) for word in spec["command"])
