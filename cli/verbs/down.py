"""`muster down`."""

import os
import time
from pathlib import Path

import click

from cli.errors import Exit, Failure
from cli.output import say
from cli.up.control import NotRunning, Refused, ask
from cli.up.layout import default_folder
from cli.up.processes import start_time


@click.command()
@click.option("--data-dir", type=click.Path(path_type=Path), help="Of the cluster (MUSTER_DATA_DIR, else ~/.muster).")
@click.option(
    "--timeout", default=120.0, show_default=True, type=click.FloatRange(0), help="Seconds to wait for its end."
)
def down(data_dir: Path | None, timeout: float) -> None:
    """Stop the embedded cluster and all that runs in it. What it knows is kept."""
    folder = data_dir.absolute() if data_dir else default_folder()
    try:
        pid = int(ask(folder, do="stop")["pid"])
    except NotRunning:
        say(f"no cluster is running in {folder}")
        return
    except (Refused, OSError, ValueError) as error:
        raise Failure(f"the cluster in {folder} does not answer: {error}", code=Exit.UNREACHABLE) from None
    born, deadline = start_time(pid), time.monotonic() + timeout
    while born is not None and start_time(pid) == born:
        if time.monotonic() > deadline:
            raise Failure(f"the cluster in {folder} (pid {pid}) has not ended after {timeout:g} s", code=Exit.TIMEOUT)
        time.sleep(0.02)
    say(f"stopped; `muster up{'' if data_dir is None else f' --data-dir {os.fspath(data_dir)}'}` goes on where it was")
