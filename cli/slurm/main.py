"""One of Slurm's commands, by its name."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

from cli.errors import Exit, Failure

COMMANDS: Final = {
    "sbatch": "cli.slurm.sbatch",
    "srun": "cli.slurm.sbatch",
    "salloc": "cli.slurm.sbatch",
    "squeue": "cli.slurm.listing",
    "sacct": "cli.slurm.listing",
    "sinfo": "cli.slurm.listing",
    "scancel": "cli.slurm.control",
    "scontrol": "cli.slurm.control",
}


def call(command: str, words: Sequence[str]) -> int:
    """Its exit code. Raises Failure."""
    if words[:1] in (["--version"], ["-V"]) and command != "scontrol":
        from muster.version import VERSION

        print(f"muster {VERSION} ({command})")
        return Exit.OK
    return int(getattr(importlib.import_module(COMMANDS[command]), command)(list(words)))


def main(command: str, words: Sequence[str] | None = None) -> int:
    """As a program of its own."""
    try:
        code = call(command, sys.argv[1:] if words is None else words)
        sys.stdout.flush()
    except Failure as failure:
        for line in failure.lines():
            sys.stderr.write(f"{command}: {line}\n")
        return 1 if failure.code is Exit.USAGE else failure.code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    return code
