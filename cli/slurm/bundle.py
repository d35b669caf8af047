"""The one text that runs inside jobs: the station, with what it imports put before it."""

from functools import cache
from importlib.resources import files
from typing import Final

_IMPORT: Final = "from cli.slurm.hostlist import compress, expand\n"


@cache
def program() -> str:
    folder = files("cli.slurm")
    hostlist, station = ((folder / name).read_text() for name in ("hostlist.py", "station.py"))
    assert _IMPORT in station
    before, after = station.split(_IMPORT)
    return before + hostlist.partition('"""\n')[2] + after


RUN: Final = ("python3", "-c", "import os; exec(os.environ['MUSTER_SLURM_PROGRAM'])")
