"""The user's program as an argument list that an agent may complete."""

from typing import Any, Final

SCRIPT_FILE: Final = "script.sh"


def literal(text: str) -> str:
    """The user's text in a template: nothing in it is a placeholder."""
    return text.replace("%{", "%%{")


def program(spec: dict[str, Any]) -> tuple[str, ...]:
    """The command, or the shell with the script's file."""
    if spec.get("script") is not None:
        return ("/bin/sh", f"%{{dir}}/{SCRIPT_FILE}")
    return tuple(literal(word) for word in spec["command"])


def program_files(spec: dict[str, Any]) -> dict[str, str]:
    """Files of the worker's private folder that the program needs."""
    script = spec.get("script")
    return {} if script is None else {SCRIPT_FILE: literal(script)}
