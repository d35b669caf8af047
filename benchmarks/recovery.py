"""Recovery on real processes: for each kind of fault how soon it is found, decided and relaunched, and whether rightly.

    ./run bench recovery [--runs N] [--kinds A,B] [--json]

Beside it: a bare torchrun start of the same program, and the relaunch of the same under Muster (framework torchrun).
Exit status 1 when a node was evicted wrongly, a recognised user error restarted, or an unrecognised one more than once.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.chaos.training.faults import FAULTS, Fault
from tests.chaos.training.trial import EVERY, PROGRAM, SECONDS, STEPS, Shown, manifest, seconds, trial, undisturbed
from tests.up.cluster import ROOT, Cluster, until

USER_ERRORS = ("type_error", "missing_module")
UNRECOGNISED = "silent_error"


def main() -> int:
    asked = argparse.ArgumentParser(prog="./run bench recovery", description=__doc__.partition("\n")[0])
    asked.add_argument("--runs", type=int, default=30, help="of each kind (30)")
    asked.add_argument("--kinds", default=",".join(one.name for one in FAULTS), help="which, by commas (all)")
    asked.add_argument("--starts", type=int, default=3, help="of torchrun, bare and as relaunches (3)")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--json", action="store_true")
    given = asked.parse_args()
    kinds = [one for one in FAULTS if one.name in given.kinds.split(",")]
    folder = Path(tempfile.mkdtemp(prefix="muster-recovery-"))
    cluster = Cluster(folder)
    try:
        cluster.start("--agents", "4")
        weights = undisturbed(cluster, folder / "undisturbed")
        table = {kind.name: measure(cluster, folder, kind, weights, given) for kind in kinds}
        starts = relaunches(cluster, folder, given.starts)
    finally:
        cluster.close()
    shutil.rmtree(folder, ignore_errors=True)
    report = {"kinds": {name: row(shown) for name, shown in table.items()}, "torchrun": starts}
    sys.stdout.write(json.dumps(report, indent=1) + "\n" if given.json else text(report))
    return int(broken(table))


def measure(cluster: Cluster, folder: Path, kind: Fault, weights: object, given: argparse.Namespace) -> list[Shown]:
    found = []
    for run in range(given.runs):
        name = f"{kind.name.replace('_', '-')}-{run}"
        found.append(trial(cluster, folder / name, kind, name, given.seed + run, weights))
        for problem in found[-1].problems:
            sys.stderr.write(f"{name}: {problem}\n")
    return found


def row(shown: list[Shown]) -> dict[str, object]:
    def middle(values: list[float | None]) -> float | None:
        known = [one for one in values if one is not None]
        return round(median(known), 3) if known else None

    return {
        "runs": len(shown),
        "detection": middle([one.detection for one in shown]),
        "decision": middle([one.decision for one in shown]),
        "relaunch": middle([one.relaunch for one in shown]),
        "redone": middle([float(one.redone) for one in shown]),
        "rightCulprit": sum(one.right_culprit for one in shown),
        "rightAction": sum(not any(p.startswith("action") for p in one.problems) for one in shown),
        "asPromised": sum(not one.problems for one in shown),
        "wrongEvictions": sum(one.evicted for one in shown),
        "restarts": max(one.restarts for one in shown),
    }


def broken(table: dict[str, list[Shown]]) -> bool:
    evicted = any(one.evicted for shown in table.values() for one in shown)
    restarted = any(one.restarts for name in USER_ERRORS for one in table.get(name, ()))
    return evicted or restarted or any(one.restarts > 1 for one in table.get(UNRECOGNISED, ()))


def relaunches(cluster: Cluster, folder: Path, count: int) -> dict[str, object]:
    """Seconds to the first step, in turn: a bare torchrun, and a relaunch under Muster from its decision on."""
    bare, ours = [], []
    for run in range(count):
        bare.append(_bare(folder / f"bare-{run}", 29700 + run))
        ours.append(_relaunch(cluster, folder / f"torchrun-{run}", f"torchrun-{run}"))
    ratio = median(ours) / median(bare) if bare else 0.0
    return {"bare": [round(x, 2) for x in bare], "relaunch": [round(x, 2) for x in ours], "ratio": round(ratio, 3)}


def _bare(folder: Path, port: int) -> float:
    folder.mkdir()
    env = os.environ | {"STEPS": "2", "EVERY": "100", "SECONDS": str(SECONDS), "OUT": str(folder), "PYTHONPATH": str(ROOT),
                        "GANG_PORT": str(port + 100)}  # fmt: skip
    began = time.time()
    words = ["--nnodes", "1", "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", str(port)]
    subprocess.run([sys.executable, "-m", "torch.distributed.run", *words, str(PROGRAM)], env=env, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    return float((folder / "first-0").read_text()) - began


def _relaunch(cluster: Cluster, folder: Path, name: str) -> float:
    folder.mkdir()
    asked = manifest(name, folder, "kill", 1, 2 * EVERY + 3, framework="torchrun")
    asked["spec"] |= {"workers": 1, "command": ["python", str(PROGRAM)]}
    port = 29900 + int(name.rpartition("-")[2])
    asked["spec"]["env"] |= {
        "GANG_PORT": str(port),
        "STEPS": str(STEPS),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    client = cluster.client()
    client.create(asked)
    until(f"{name} ends", lambda: client.get("Job", name)["status"]["phase"] in ("Succeeded", "Failed"))
    first = client.parts(name, "attempts")[0]["timeline"]
    return float((folder / "first-2").read_text()) - seconds(first["decidedAt"])


def text(report: dict[str, object]) -> str:
    columns = ("runs", "detection", "decision", "relaunch", "redone", "rightCulprit", "rightAction", "asPromised",
               "wrongEvictions", "restarts")  # fmt: skip
    lines = [f"{'fault':<16}" + "".join(f"{name:>15}" for name in columns)]
    for name, one in report["kinds"].items():  # type: ignore[attr-defined]
        lines.append(f"{name:<16}" + "".join(f"{'-' if one[c] is None else one[c]:>15}" for c in columns))
    starts = report["torchrun"]
    lines.append(
        f"first step, seconds: bare torchrun {starts['bare']}, relaunch {starts['relaunch']}, ratio {starts['ratio']}"
    )  # type: ignore[index]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
