"""Find progress in log lines by the job's own regular expression: `python -I -S match.py REGEX < lines`.

A process of its own, since a bad expression may take for ever, and Python cannot be interrupted within one: a
timer of the kernel ends this process after two seconds of computing on one batch. Prints {"step", "loss"}
lines.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys

BUDGET = 2.0
"""Seconds of computing for one batch of lines."""
MAX_LINE = 4096
NOT_FINITE = re.compile(rb"-?(nan|inf)\b", re.IGNORECASE)


def find(pattern: re.Pattern[bytes], line: bytes) -> dict[str, object] | None:
    """The step and the loss in a line; None when there is no step."""
    match = pattern.search(line[:MAX_LINE])
    if match is None:
        return None
    groups = match.groupdict()
    try:
        step = int(groups.get("step") or b"")
    except ValueError:
        return None
    told = groups.get("loss") or b""
    if strange := NOT_FINITE.match(told):
        return {"step": step, "loss": strange[0].lower().decode()}
    try:
        loss = float(told or b"nan")
    except ValueError:
        loss = float("nan")
    return {"step": step, "loss": loss if abs(loss) < float("inf") else None}


def main() -> int:
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    pattern, rest = re.compile(sys.argv[1].encode()), b""
    while data := os.read(0, 65536):
        signal.setitimer(signal.ITIMER_PROF, BUDGET)
        *lines, rest = (rest + data).split(b"\n")
        rest = rest[-MAX_LINE:]
        found = [json.dumps(each) + "\n" for line in lines if (each := find(pattern, line))]
        signal.setitimer(signal.ITIMER_PROF, 0)
        if found:
            os.write(1, "".join(found).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
