"""Looks at the machine and runs the checks that are due, in a process of its own (agents/health/prober.py).

Each line of standard input is the path of a request; the answer is JSON lines on standard output, `done` behind the
last: first what is seen (when asked for), then what each check gave. A check that does not end in time is said so, and
then this process ends, too: what hangs goes with it.
"""

import os
import sys
import threading
import time
from pathlib import Path
from queue import Empty, Queue
from typing import Final

import msgspec

from agents.devices import live, sysfs
from agents.devices.known import settle
from agents.health.check import Answer, Check, Memory, Outcome, Request, Scene
from agents.health.checks.registry import BY_NAME
from muster.inspection import Inspection

HUNG: Final = "did not end"
MOST: Final = 500
"""Requests after which this process makes room for a fresh one."""


def serve() -> None:
    """Until its agent closes the pipe."""
    for number, line in enumerate(sys.stdin):
        hung = answer(Path(line.rstrip("\n")))
        sys.stdout.buffer.write(b"done\n")
        sys.stdout.buffer.flush()
        if hung or number >= MOST:
            os._exit(0)  # threads that hang are not waited for


def answer(path: Path) -> bool:
    """True when a check hangs."""
    request = msgspec.json.decode(path.read_bytes(), type=Request)
    found, known = Inspection(), request.known
    if request.look == "all":
        found = live.inspect(request.timeout)
        known = settle(found, request.known)
        _tell(Answer(seen=found, known=known))
    elif request.look == "ports":
        found.nics = sysfs.nics()
        _tell(Answer(ports=found.nics))
    scene = Scene(
        now=request.now, found=found, known=known, expected=request.expected, held=request.held,
        folder=request.folder, plugins=request.plugins,
    )  # fmt: skip
    hung = False
    for outcome in run([BY_NAME[name] for name in request.checks if name in BY_NAME], scene, request.memory):
        hung |= outcome.trouble.startswith(HUNG)
        _tell(Answer(outcome=outcome))
    return hung


def run(checks: list[Check], scene: Scene, memory: dict[str, Memory]) -> list[Outcome]:
    """All at once, each in a thread with its own time limit."""
    done: Queue[Outcome] = Queue()
    began = time.monotonic()
    for check in checks:
        threading.Thread(target=_one, args=(check, scene, memory.get(check.name, {}), done), daemon=True).start()
    outcomes: dict[str, Outcome] = {}
    waiting = {check.name: began + check.timeout for check in checks}
    while waiting:
        try:
            outcome = done.get(timeout=max(0.01, min(waiting.values()) - time.monotonic()))
            outcomes[outcome.check] = outcome
            waiting.pop(outcome.check, None)
        except Empty:
            for name in [name for name, until in waiting.items() if time.monotonic() >= until]:
                del waiting[name]
                trouble = f"{HUNG} within {BY_NAME[name].timeout:g} s"
                outcomes[name] = Outcome(check=name, memory=memory.get(name, {}), trouble=trouble)
    return [outcomes[check.name] for check in checks]


def _one(check: Check, scene: Scene, memory: Memory, done: "Queue[Outcome]") -> None:
    before = dict(memory)
    try:
        found = check.run(scene, memory)
        done.put(Outcome(check=check.name, conditions=tuple(found), memory=memory))
    except Exception as error:  # one check that fails says so and spoils no other
        done.put(Outcome(check=check.name, memory=before, trouble=f"{type(error).__name__}: {error}"[:300]))


def _tell(what: Answer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()
