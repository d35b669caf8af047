"""`muster down`."""

import contextlib
import os
import signal
import time
from pathlib import Path

import click

from cli.errors import Exit, Failure
from cli.output import say
from cli.up.control import NotRunning, Refused, ask, holder
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
    pid = _stop(folder)
    if pid is None:
        say(f"no cluster is running in {folder}")
        return
    born, deadline = start_time(pid), time.monotonic() + timeout
    while born is not None and start_time(pid) == born:
        if time.monotonic() > deadline:
            raise Failure(f"the cluster in {folder} (pid {pid}) has not ended after {timeout:g} s", code=Exit.TIMEOUT)
        time.sleep(0.02)
    say(f"stopped; `muster up{'' if data_dir is None else f' --data-dir {os.fspath(data_dir)}'}` goes on where it was")


def _stop(folder: Path) -> int | None:
    """Tell the `up` of this data directory to end; its pid, None when there is none. One that has no control socket,
    because it starts or ends just now, is told by signal."""
    try:
        return int(ask(folder, do="stop")["pid"])
    except NotRunning:
        pid = holder(folder)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        return pid
    except (Refused, OSError, ValueError) as error:
        raise Failure(f"the cluster in {folder} does not answer: {error}", code=Exit.UNREACHABLE) from None
