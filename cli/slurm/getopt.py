"""Options as GNU getopt reads them: `-N4`, `-N 4`, `--nodes=4`, `--nodes 4`, `-HW`; what is no option ends them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cli.errors import Exit, Failure, suggestion

Takes = Literal["value", "nothing", "maybe"]


@dataclass(frozen=True, slots=True)
class Option:
    """`takes`: a value, nothing, or (only as `--name=value`) perhaps one. `note` is told when it is used: what it
    does not do here."""

    name: str
    short: str = ""
    takes: Takes = "value"
    note: str = ""


Table = Mapping[str, Option]
"""By `--name` and `-x`."""


def table(*options: Option) -> Table:
    found = {f"--{one.name}": one for one in options}
    return found | {f"-{one.short}": one for one in options if one.short}


def parse(words: Sequence[str], known: Table, *, command: str, place: str = "") -> tuple[dict[str, str], list[str]]:
    """(values by the option's name, what follows the options); an option without a value has "". The last of several
    wins. Raises Failure that names an unknown option and where it stands."""
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest[0]
        if word == "--":
            return found, rest[1:]
        if not word.startswith("-") or word == "-":
            break
        rest.pop(0)
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            option = _known(name, known, command, place)
            if option.takes == "nothing" and equals:
                raise _wrong(f"{name} takes no value", place)
            if option.takes == "value" and not equals:
                value = _next(rest, name, place)
            found[option.name] = value
            continue
        letters = word[1:]
        while letters:
            option = _known(f"-{letters[0]}", known, command, place)
            letters = letters[1:]
            if option.takes == "nothing":
                found[option.name] = ""
            elif option.takes == "maybe":
                found[option.name], letters = letters, ""
            else:
                found[option.name] = letters.removeprefix("=") or _next(rest, f"-{option.short}", place)
                letters = ""
    return found, rest


def _known(name: str, known: Table, command: str, place: str) -> Option:
    if name in known:
        return known[name]
    begun = [one for one in known if name.startswith("--") and one.startswith(name)]
    if len(begun) == 1:
        return known[begun[0]]
    hint = suggestion(name, [one for one in known if one.startswith("--")]) if name.startswith("--") else None
    raise _wrong(f"unknown option {name}", place, hint or f"see `{command} --help`")


def _next(rest: list[str], name: str, place: str) -> str:
    if not rest:
        raise _wrong(f"{name} needs a value", place)
    return rest.pop(0)


def _wrong(message: str, place: str, hint: str | None = None) -> Failure:
    return Failure(f"{place}: {message}" if place else message, code=Exit.USAGE, hint=hint)
