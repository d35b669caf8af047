"""`python -m muster.nodecheck [--seconds S] [--backend auto|torch|numpy|plain]`: one rank on each node of a gang.

Measures on its own node memory, matrix products and the way to the devices, then with the others bandwidth of each pair and of
all together. Every measurement is a line of the report file; standard output tells the same to people. Exit status 1
when something was wrong.
"""

import argparse
import os
import socket
import sys
from collections.abc import Iterable

from muster.nodecheck import local, network
from muster.nodecheck.measured import Measured, tell


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m muster.nodecheck")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each kind of burn-in")
    parser.add_argument("--backend", choices=("auto", "torch", "numpy", "plain"), default="auto")
    options = parser.parse_args()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    node = os.environ.get("MUSTER_NODE") or socket.gethostname()
    bench = local.choose(options.backend)
    found: list[Measured] = []
    found += _said(bench.measure(options.seconds), rank)
    if world > 1:
        mesh = network.join(bench.kind, rank, world, node)
        try:
            found += _said(mesh.measure(options.seconds), rank)
        finally:
            mesh.close()
    return 0 if all(one.ok for one in found) else 1


def _said(measured: Iterable[Measured], rank: int) -> list[Measured]:
    found = []
    for one in measured:
        tell(one, rank)
        found.append(one)
    return found


if __name__ == "__main__":
    sys.exit(main())
