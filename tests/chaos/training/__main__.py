"""`./run chaos [--seed N] [--runs N] [--kinds A,B]`: real trainings with every kind of fault that can be made here.

Verdict, action, resume point, culprit and the final weights are checked. Exit status 1 when a promise was not kept.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.training.faults import FAULTS
from tests.chaos.training.trial import trial, undisturbed
from tests.up.cluster import Cluster


def main() -> int:
    asked = argparse.ArgumentParser(prog="./run chaos", description=__doc__.partition("\n")[0])
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--runs", type=int, default=1, help="of each kind (1)")
    asked.add_argument("--kinds", default=",".join(one.name for one in FAULTS), help="which, by commas (all)")
    given = asked.parse_args()
    kinds = [one for one in FAULTS if one.name in given.kinds.split(",")]
    if unknown := set(given.kinds.split(",")) - {one.name for one in kinds}:
        asked.error(f"no kind {', '.join(sorted(unknown))}; there are: {', '.join(one.name for one in FAULTS)}")
    folder, broken = Path(tempfile.mkdtemp(prefix="muster-chaos-")), 0
    cluster = Cluster(folder)
    try:
        cluster.start("--agents", "4")
        weights = undisturbed(cluster, folder / "undisturbed")
        for run in range(given.runs):
            for kind in kinds:
                name = f"{kind.name.replace('_', '-')}-{run}"
                shown = trial(cluster, folder / name, kind, name, given.seed + run, weights)
                broken += bool(shown.problems)
                times = ", ".join(f"{word} {value:.2f} s" for word, value in
                                  (("detect", shown.detection), ("decide", shown.decision), ("relaunch", shown.relaunch))
                                  if value is not None)  # fmt: skip
                what = "; ".join(shown.problems) or f"{shown.category}, {shown.action}, {shown.redone} steps again"
                sys.stdout.write(f"{'WRONG' if shown.problems else 'right'}  {name}: {what} ({times})\n")
                sys.stdout.flush()
    finally:
        cluster.close()
    if broken:
        sys.stdout.write(f"{broken} of {given.runs * len(kinds)} were not as promised; everything is in {folder}\n")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
