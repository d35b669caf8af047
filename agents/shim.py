"""The small parent of one worker's processes on one node: `python -I -S agents/shim.py FOLDER`.

Standard library only, one process per worker, in a session of its own, so it outlives its agent. It is the
subreaper of everything that the processes start, so nothing of a worker can slip away from it. It

* waits for `go`, then starts the processes, each in its own session and dying with the shim (PDEATHSIG);
* pumps their output into bounded, rotated files `streams/NAME.OFFSET.log`;
* kills everything at a deadline on CLOCK_BOOTTIME, which its agent keeps moving while its lease holds;
* writes what happened into `diary.jsonl`, fsynced: the truth about this worker, whoever else dies.

FOLDER holds `launch.json` (read once, then removed: it holds secrets), `shim.lock` (flock: one shim for a
worker; its pid), `diary.jsonl` and `shim.sock`. Commands are JSON objects, one a line: {"do": "go"},
{"do": "stop", "grace": seconds, "why": text}, {"do": "deadline", "at": boottime or null}; a dot comes back
whenever the diary has grown.

Exit status 0: did its work. 3: another shim has this folder. 2: wrong use.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys

PR_SET_CHILD_SUBREAPER, M_ARENA_MAX = 36, -8


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python -I -S agents/shim.py FOLDER\n")
        return 2
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # last: the standard library wins
    from agents.shims.loop import Shim
    from agents.shims.plain import loads

    os.chdir(sys.argv[1])
    lock = os.open("shim.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 3
    os.ftruncate(lock, 0)
    os.pwrite(lock, b"%d" % os.getpid(), 0)
    if os.getpid() != os.getsid(0):
        os.setsid()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with open("launch.json", "rb") as file:
        launch = loads(file.read())
    os.unlink("launch.json")
    os.makedirs("streams", exist_ok=True)
    libc.mallopt(M_ARENA_MAX, 1)  # one heap for all threads, and what the start needed is given back
    libc.malloc_trim(0)
    Shim(launch).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
