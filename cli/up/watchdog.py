"""`python -m cli.up.watchdog FOLDER PIPE LOCK`: ends the shims of a cluster whose `muster up` was killed.

The parts of a cluster die with `up` by the kernel's hand. Shims must not, for they outlive their agents by design; and the
fence by which they end themselves may be long, or never. PIPE is a pipe that only `up` holds the other end of: it ends
when `up` does. LOCK is the lock of the data directory, shared with `up`, so that no other `up` begins in between.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from cli.up import processes
from cli.up.layout import Layout

PATIENCE: Final = 4.0  # seconds for shims to stop their ranks before all are killed
SETTLE: Final = 0.2  # seconds in which an agent that dies may still have started a shim


def main(folder: Path, pipe: int, lock: int) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # its end is that of `up`, or its work
    os.read(pipe, 1)
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()} ending".encode(), 0)
    layout = Layout(folder)
    time.sleep(SETTLE)
    while end_shims(layout, PATIENCE):
        time.sleep(SETTLE)
    layout.control.unlink(missing_ok=True)
    layout.state.unlink(missing_ok=True)


def end_shims(layout: Layout, patience: float) -> list[int]:
    """Tell every shim of this cluster to stop its ranks, kill after `patience` seconds what is left; their pids."""
    shims = [pid for agent in layout.agents.glob("*") for pid in processes.shim_pids(agent)]
    processes.kill(shims, signal.SIGTERM)
    processes.end(shims, patience)
    return shims


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
