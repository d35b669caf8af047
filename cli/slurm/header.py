"""The header of a batch script: its #SBATCH lines."""

import shlex

from cli.errors import Exit, Failure
from cli.slurm.getopt import parse
from cli.slurm.options import BATCH

MARK = "#SBATCH"


def options(script: str, source: str) -> dict[str, str]:
    """Of all lines before the first command, as sbatch reads them. Raises Failure with the line's number."""
    found: dict[str, str] = {}
    for number, line in enumerate(script.splitlines(), 1):
        text = line.strip()
        if text and not text.startswith("#"):
            break
        if not text.startswith(MARK) or text[len(MARK) :][:1] not in (" ", "\t"):
            continue
        place = f"{source}:{number}"
        try:
            words = shlex.split(text[len(MARK) :], comments=True)
        except ValueError as error:
            raise Failure(f"{place}: {error}", code=Exit.USAGE) from None
        given, rest = parse(words, BATCH, command="sbatch", place=place)
        if rest:
            raise Failure(f"{place}: {rest[0]!r} is no option", code=Exit.USAGE)
        found |= given
    return found


def checked(script: str, source: str) -> str:
    """The script itself, where sbatch would take it. Raises Failure."""
    if not script.startswith("#!"):
        raise Failure(
            f"{source}: a batch script begins with #! and its interpreter", code=Exit.USAGE, hint="e.g. #!/bin/bash"
        )
    if "\r\n" in script:
        raise Failure(f"{source}: it has DOS line ends", code=Exit.USAGE, hint=f"dos2unix {source}")
    return script
