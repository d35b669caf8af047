"""One training with one fault on a running cluster, and what it shows."""

import itertools
import json
import random
import sys
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tests.chaos.training.faults import Fault
from tests.up.cluster import ROOT, until

PROGRAM = Path(__file__).parent / "program.py"
STEPS, EVERY, SECONDS = 40, 8, 0.02
WORKERS, RANKS = 2, 2


class Shown(NamedTuple):
    """`problems`: promises that were not kept, in words. Times in seconds; None where there was no restart."""

    problems: tuple[str, ...]
    detection: float | None
    decision: float | None
    relaunch: float | None
    redone: int
    category: str
    action: str
    right_culprit: bool
    evicted: int
    restarts: int


def manifest(name, folder, fault, who, at, framework="command"):
    spec = {
        "workers": WORKERS,
        "ranksPerWorker": RANKS,
        "framework": framework,
        "accelerators": [{"type": "h100", "count": 1}],
        "command": [sys.executable, str(PROGRAM)],
        "env": {"FAULT": fault, "WHO": str(who), "AT": str(at), "STEPS": str(STEPS), "EVERY": str(EVERY),
                "SECONDS": str(SECONDS), "OUT": str(folder), "PYTHONPATH": str(ROOT)},
        "checkpoint": {"directory": str(folder / "saved"), "format": "marker", "grace": "1s"},
        "recovery": {"killGrace": "500ms", "hangAfter": "2s", "noProgressLimit": 2},
    }  # fmt: skip
    return {"apiVersion": "muster.dev/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def undisturbed(cluster, folder):
    """The final weights of a run that nothing happens to."""
    folder.mkdir(parents=True)
    client = cluster.client()
    client.create(manifest("undisturbed", folder, "", 0, 0))
    until("it ends", lambda: client.get("Job", "undisturbed")["status"]["phase"] == "Succeeded")
    return json.loads((folder / "final.json").read_text())


def trial(cluster, folder, fault: Fault, name, seed, weights):
    """Run it and look. `weights`: of the undisturbed run."""
    chance = random.Random(f"{seed} {fault.name}")
    folder.mkdir(parents=True)
    who = chance.randrange(WORKERS * RANKS)
    at = chance.randrange(2 * EVERY + 2, STEPS - 2)
    if fault.name == "corrupt":
        who = 0
    client = cluster.client()
    client.create(manifest(name, folder, fault.name, who, at))
    if fault.name == "device":
        home = _break_device(cluster, client, name, folder, who)
    final = ("Succeeded", "Failed", "Cancelled")
    if fault.actions == ("hold",):
        until("it is held", lambda: client.get("Job", name)["status"]["phase"] == "Suspended")
        client.act("Job", name, "resume")
    until(f"{name} ends", lambda: client.get("Job", name)["status"]["phase"] in final)
    shown = _look(client, folder, fault, name, who, at, weights)
    if fault.name == "device":
        cluster.muster("lab", "heal", home)
        cluster.muster("uncordon", home)
    return shown


def _break_device(cluster, client, name, folder, who):
    until("it has come to its step", (folder / "reached").exists)
    worker = client.get("Job", name)["status"]["workers"][who // RANKS]
    cluster.muster("lab", "fault", worker["node"], "xid", "79", "--device", str(worker["devices"][0]))
    return worker["node"]


def _look(client, folder, fault, name, who, at, weights):
    job, attempts = client.get("Job", name), client.parts(name, "attempts")
    first, verdict, problems = attempts[0], attempts[0]["verdict"] or {}, []

    def expect(what, found, allowed):
        if found not in allowed:
            problems.append(f"{what}: found {found}, expected {' or '.join(map(str, allowed))}")

    expect("phase", job["status"]["phase"], (fault.ends,))
    expect("category", verdict.get("category", first["reason"]), fault.categories)
    expect("action", verdict.get("action", _moved(attempts)), fault.actions)
    expect("restarts", job["status"]["restarts"] <= fault.restarts, (True,))
    right = not fault.culprit or verdict.get("culpritRank") == who
    expect("culprit", right, (True,))
    evicted = sum(len(one["verdict"]["culpritNodes"]) for one in attempts if one["verdict"])
    expect("nodes blamed", evicted > 0 or _moved(attempts) == "replace", (fault.evicts,))
    _resumes(attempts, fault, at, expect)
    if fault.ends == "Succeeded" and (folder / "final.json").exists():
        expect("final weights", json.loads((folder / "final.json").read_text()) == weights, (True,))
    line, second = first["timeline"], attempts[1] if len(attempts) > 1 else None
    begin = folder / "first-2"
    return Shown(
        problems=tuple(problems),
        detection=_between(line["failedAt"], line["detectedAt"]),
        decision=_between(line["endedAt"], line["decidedAt"]),
        relaunch=float(begin.read_text()) - seconds(line["decidedAt"])
        if begin.exists() and line["decidedAt"]
        else None,
        redone=second["redoneSteps"] if second else 0,
        category=verdict.get("category", first["reason"] or ""),
        action=verdict.get("action", _moved(attempts)),
        right_culprit=right,
        evicted=0 if fault.evicts else evicted,
        restarts=job["status"]["restarts"],
    )


def _moved(attempts):
    """`replace` where the first attempt was moved off a node while it ran, as a fault of a device asks for."""
    nodes = [{worker["node"] for worker in one["workers"]} for one in attempts[:2]]
    return "replace" if attempts[0]["reason"] == "Drained" and nodes[0] - nodes[-1] else ""


def _resumes(attempts, fault, at, expect):
    """From the newest complete checkpoint before the fault; a spoiled one is passed over."""
    for before, after in itertools.pairwise(attempts):
        newest = (at - 1) // EVERY * EVERY
        found = (after["resume"] or {}).get("step", 0)
        allowed = (newest, newest - EVERY) if fault.name == "corrupt" or before["lastStep"] != at - 1 else (newest,)
        expect("resume point", found, (*allowed, (before["lastStep"] or 0) // EVERY * EVERY))


def seconds(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _between(one, other):
    return max(0.0, seconds(other) - seconds(one)) if one and other else None
